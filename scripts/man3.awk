# See man3. Reads a header, writes out/NAME.3. POSIX awk.

# --- text ----------------------------------------------------------------------------------------------

# A line of a page that is shown as it is.
function literal(line) {
    gsub(/\\/, "\\e", line)
    sub(/^[.']/, "\\\\\\&&", line)
    return line
}

# Running text: `code` and names of ours in another font. A sentence begins a line, as is usual in manual pages.
function prose(text,    n, i, words, line, word) {
    gsub(/\\/, "\\e", text)
    n = split(text, words, " ")
    line = ""
    for (i = 1; i <= n; i++) {
        word = emphasized(words[i])
        if (line != "" && length(line " " word) > 78)
            line = flushed(line)
        if (line == "" && word ~ /^[.']/)
            word = "\\&" word
        line = line == "" ? word : line " " word
        if (words[i] ~ /[.?!][)"]*$/ && words[i] !~ /(\.\.|…)\.?$/)
            line = flushed(line)
    }
    if (line != "")
        flushed(line)
}

function flushed(line) {
    print line >file
    return ""
}

# One word, with its punctuation. What is in backticks may be several words long.
function emphasized(word) {
    if (quoted || word ~ /`/) {
        while (sub(/`/, quoted ? "\\fR" : "\\fI", word))
            quoted = !quoted
    } else if (match(word, /(simba_[a-z_]+[a-z]|SIMBA_[A-Z_]*[A-Z])/) && word ~ /^[("]*(simba|SIMBA)_/) {
        word = substr(word, 1, RSTART - 1) "\\fB" substr(word, RSTART, RLENGTH) "\\fR" substr(word, RSTART + RLENGTH)
    }
    return word
}

# Declarations, as they are but for what is too wide: comments are filled anew, and those behind code are put above it.
function show_code(code,    n, i, lines, line, at, text) {
    sub(/\n+$/, "", code)
    n = split(code, lines, "\n")
    for (i = 1; i <= n; i++) {
        line = lines[i]
        sub(/ +\\$/, " \\", line)
        if (line ~ /^#define SIMBA_[A-Z_]+_(INIT|INHERIT) \\$/) { # whose values are of no interest
            sub(/\\$/, "{ ... }", line)
            while (lines[i] ~ /\\$/)
                i++
        }
        at = match(line, /\/\*/)
        if (at > 0 && line !~ /\*\// && substr(line, 1, at - 1) ~ /^ *$/) {
            text = line
            while (lines[i] !~ /\*\//)
                text = text "\n" lines[++i]
            show_comment(substr(line, 1, at - 1), comment_text(text))
        } else if (length(line) > 78 && at > 0 && line !~ /\\$/) {
            match(line, /^ */)
            show_comment(substr(line, 1, RLENGTH), comment_text(substr(line, at)))
            text = substr(line, 1, at - 1)
            sub(/ +$/, "", text)
            if (text != "")
                print literal(text) >file
        } else {
            print literal(line) >file
        }
    }
}

function show_comment(indent, text,    n, i, words, line) {
    gsub(/\n/, " \001 ", text) # a paragraph
    n = split(text, words, " ")
    line = indent "/*"
    for (i = 1; i <= n; i++) {
        if (words[i] == "\001" || length(line " " words[i]) > 75) {
            print literal(line) >file
            line = indent " *"
        }
        if (words[i] != "\001")
            line = line " " words[i]
    }
    print literal(line " */") >file
}

# The inside of a comment, in one line; paragraphs are separated by \n.
function comment_text(comment) {
    sub(/^[ \t]*\/\*+[ \t]*/, "", comment)
    sub(/[ \t]*\*\/[ \t]*$/, "", comment)
    gsub(/\n[ \t]*\*[ \t]*\n/, "\001", comment)
    gsub(/\n[ \t]*\*[ \t]*/, " ", comment)
    gsub(/\n[ \t]*/, " ", comment)
    gsub(/\001[ \t]*\*?[ \t]*/, "\n", comment)
    return comment
}

function first_sentence(text) {
    sub(/\n.*/, "", text)
    if (match(text, /[.;?:]( |$)/))
        text = substr(text, 1, RSTART - 1)
    gsub(/`/, "", text)
    return text
}

# --- items: comments, functions, other code -----------------------------------------------------------------

function add_item(kind, text) {
    kinds[++items] = kind
    texts[items] = text
}

function is_function(code) {
    return code ~ /^SIMBA_API /
}

function function_name(code) {
    sub(/\(.*/, "", code)
    sub(/.*[ *]/, "", code)
    return code
}

# --- a page --------------------------------------------------------------------------------------------------

# "SIMBA_API int f(int a,\n   int b);" as mdoc has it.
function synopsis(code,    name, type, args, i, depth, c, arg) {
    gsub(/[ \t\n]+/, " ", code)
    sub(/^SIMBA_API /, "", code)
    sub(/;.*$/, "", code)
    name = function_name(code)
    type = substr(code, 1, index(code, name) - 1)
    sub(/ $/, "", type)
    args = substr(code, index(code, name) + length(name) + 1)
    sub(/\)$/, "", args)
    print ".Ft \"" type "\"" >file
    print ".Fo " name >file
    depth = 0
    arg = ""
    for (i = 1; i <= length(args); i++) {
        c = substr(args, i, 1)
        depth += c == "(" ? 1 : c == ")" ? -1 : 0
        if (c == "," && depth == 0) {
            print ".Fa \"" arg "\"" >file
            arg = ""
        } else if (arg != "" || c != " ") {
            arg = arg c
        }
    }
    print ".Fa \"" arg "\"" >file
    print ".Fc" >file
}

function paragraphs(text,    n, i, list) {
    n = split(text, list, "\n")
    for (i = 1; i <= n; i++) {
        if (i > 1)
            print ".Pp" >file
        prose(list[i])
    }
}

function alias(name) {
    if (name == page || name in made)
        return
    made[name] = 1
    print ".so man3/" page ".3" >(out "/" name ".3")
    close(out "/" name ".3")
}

# Everything that has been collected since the last page, whose functions are items first..items.
function write_page(    i, names, about, n, returns_code) {
    n = 0
    for (i = 1; i <= items; i++)
        if (kinds[i] == "function")
            names[++n] = function_name(texts[i])
    page = names[1]
    file = out "/" page ".3"
    made[page] = 1
    pages[++page_count] = page
    sections[page_count] = section

    for (i = 1; i <= items; i++)
        if (kinds[i] == "comment") {
            about = first_sentence(comment_text(texts[i]))
            break
        }
    if (about == "") {
        print header ": " page " has no comment" >"/dev/stderr"
        failed = 1
    }
    print ".\\\" Made from " header " by scripts/man3." >file
    print ".Dd " day >file
    print ".Dt " toupper(page) " 3" >file
    print ".Os" >file
    print ".Sh NAME" >file
    for (i = 1; i <= n; i++)
        print ".Nm " names[i] (i < n ? " ," : "") >file
    print ".Nd " literal(about ~ /^[A-Z][a-z ]/ ? tolower(substr(about, 1, 1)) substr(about, 2) : about) >file
    print ".Sh SYNOPSIS" >file
    print ".In " header >file
    for (i = 1; i <= items; i++)
        if (kinds[i] == "function") {
            synopsis(texts[i])
            returns_code = returns_code || texts[i] ~ /^SIMBA_API int /
        }

    print ".Sh DESCRIPTION" >file
    describe()
    if (pending != "") {
        print ".Sh TYPES AND CONSTANTS" >file
        print ".Bd -literal" >file
        show_code(pending)
        print ".Ed" >file
    }
    if (returns_code) {
        print ".Sh RETURN VALUES" >file
        print "Functions that return" >file
        print ".Vt int" >file
        print "return 0 or what is said above, or a negative" >file
        print ".Dv SIMBA_E" >file
        print "code, for which" >file
        print ".Xr simba_error_text 3" >file
        print "has words." >file
    }
    if (error_text != "") {
        print ".Sh ERRORS" >file
        prose(error_text)
    }
    for (i = 2; i <= n; i++)
        alias(names[i])
    alias_types()
    pending = ""
}

# Each comment, with the functions that it is about unless it is about all of them.
function describe(    i, text, about, groups) {
    error_text = ""
    for (i = 1; i <= items; i++)
        groups += kinds[i] == "comment"
    if (groups > 1)
        print ".Bl -tag -width Ds" >file
    for (i = 1; i <= items; i++) {
        if (kinds[i] != "comment")
            continue
        text = comment_text(texts[i])
        about = ""
        while (i < items && kinds[i + 1] == "function") {
            i++
            about = about (about == "" ? "" : " , ") "Fn " function_name(texts[i])
        }
        if (groups > 1)
            print ".It " about >file
        if (match(text, /(^|[ \n])Errors: /)) {
            error_text = error_text (error_text == "" ? "" : " ") \
                (groups > 1 ? function_name(texts[i]) ": " : "") with_prefix(substr(text, RSTART + RLENGTH))
            text = substr(text, 1, RSTART - 1)
        }
        paragraphs(text)
    }
    if (groups > 1)
        print ".El" >file
}

# In a list of errors the prefix is left out.
function with_prefix(text,    n, i, words) {
    n = split(text, words, " ")
    text = ""
    for (i = 1; i <= n; i++) {
        if (words[i] ~ /^E[A-Z]+[.,;:)]*$/)
            words[i] = "SIMBA_" words[i]
        text = text (i > 1 ? " " : "") words[i]
    }
    return text
}

function alias_types(    n, i, list, name) {
    n = split(pending, list, "\n")
    for (i = 1; i <= n; i++) {
        name = list[i]
        if (name ~ /^typedef (struct|enum) simba_[a-z_]+/) {
            sub(/^typedef (struct|enum) /, "", name)
            sub(/[^a-z_].*/, "", name)
            alias(name)
        } else if (name ~ /^typedef / && match(name, /\(\*simba_[a-z_]+\)/)) {
            alias(substr(name, RSTART + 2, RLENGTH - 3))
        }
    }
}

# The other pages of its section, in the order of the alphabet.
function see_also(i,    k, n, list, more, name) {
    file = out "/" pages[i] ".3"
    n = 0
    for (k = 1; k <= page_count; k++)
        if (k != i && sections[k] == sections[i])
            list[++n] = pages[k]
    print ".Sh SEE ALSO" >>file
    print ".Xr simba 3" (n > 0 ? " ," : "") >>file
    while (n > 0) {
        more = 1
        for (k = 2; k <= n; k++)
            if (list[k] < list[more])
                more = k
        name = list[more]
        list[more] = list[n--]
        print ".Xr " name " 3" (n > 0 ? " ," : "") >>file
    }
    close(file)
}

# --- the header ------------------------------------------------------------------------------------------------

# A block has ended: a page if there are functions in it; otherwise, and what is no function, something for the next one.
function end_block(    i, kept, k) {
    if (items == 0)
        return
    for (i = 1; i <= items; i++)
        if (kinds[i] == "function")
            break
    if (i > items) {
        for (i = 1; i <= items; i++)
            pending = pending texts[i] "\n"
        pending = pending "\n"
    } else {
        kept = 0
        for (i = 1; i <= items; i++) {
            if (kinds[i] == "code" || (kinds[i] == "comment" && i < items && kinds[i + 1] == "code")) {
                pending = pending texts[i] "\n"
            } else {
                kept++
                kinds[kept] = kinds[i]
                texts[kept] = texts[i]
            }
        }
        items = kept
        write_page()
    }
    items = 0
}

function balance(line,    opened, closed) {
    opened = gsub(/[{(]/, "&", line)
    closed = gsub(/[})]/, "&", line)
    return opened - closed
}

BEGIN { skipping = 1 }

/^extern "C" \{/ { skipping = 0; getline; next } # and the #endif
skipping { next }
/^#ifdef __cplusplus/ { exit }

# The one conditional in between is how functions are exported.
/^#if defined\(SIMBA_STATIC\)/ { while ((getline line) > 0 && line !~ /^#endif/); next }

/^\/\* --- .* -+ \*\/$/ {
    end_block()
    section = $0
    next
}

# In the middle of something.
state == "comment" {
    text = text "\n" $0
    if ($0 ~ /\*\//) { add_item("comment", text); state = "" }
    next
}
state == "macro" {
    text = text "\n" $0
    if ($0 !~ /\\$/) { add_item("code", text); state = "" }
    next
}
state == "code" {
    text = text "\n" $0
    depth += balance($0)
    if (depth <= 0 && $0 ~ /;[ \t]*(\/\*.*\*\/)?$/) { add_item(is_function(text) ? "function" : "code", text); state = "" }
    next
}

/^$/ { end_block(); next }
/^\/\*/ {
    text = $0
    if ($0 ~ /\*\//) add_item("comment", text)
    else state = "comment"
    next
}
/^#/ {
    text = $0
    if ($0 ~ /\\$/) state = "macro"
    else add_item("code", text)
    next
}
{
    text = $0
    depth = balance($0)
    if (depth <= 0 && $0 ~ /;[ \t]*(\/\*.*\*\/)?$/) add_item(is_function(text) ? "function" : "code", text)
    else state = "code"
}

END {
    end_block()
    for (i = 1; i <= page_count; i++)
        see_also(i)
    exit failed
}
