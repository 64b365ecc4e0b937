"""Read OpenMetrics text from stdin with the parser of prometheus_client, which is strict, and write every sample as
NAME{LABEL=VALUE,...} NUMBER, one a line, in the order of the text. Exit status 77: the parser is not installed."""
import sys

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    sys.exit(77)

for family in text_string_to_metric_families(sys.stdin.buffer.read().decode("utf-8")):
    assert family.documentation, family.name
    assert family.unit == ("seconds" if family.name.endswith("_seconds") else ""), family.name
    for sample in family.samples:
        labels = ",".join(f"{name}={value!r}" for name, value in sorted(sample.labels.items()))
        print(f"{sample.name}{{{labels}}} {float(sample.value)}")
