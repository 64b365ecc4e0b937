/* The URL schemes of our own stores, by the name of the store's folder. They are not in the stores, because a
 * library that was built without a store still says whose scheme it is. */
#ifndef SIMBA_STORES_SCHEMES_H
#define SIMBA_STORES_SCHEMES_H

#define SIMBA__SCHEMES_memory "memory"
#define SIMBA__SCHEMES_sqlite "sqlite"
#define SIMBA__SCHEMES_redis                                                                                           \
    "redis", "rediss", "redis+unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"
#define SIMBA__SCHEMES_mysql "mysql", "mariadb"
#define SIMBA__SCHEMES_postgresql "postgresql", "postgres"
#define SIMBA__SCHEMES_kubernetes "kubernetes"
#define SIMBA__SCHEMES_zookeeper "zookeeper", "zookeepers"
#define SIMBA__SCHEMES_etcd "etcd", "etcds"

#endif
