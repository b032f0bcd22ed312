package controlplane

import (
	"sync"
	_ "unsafe" // for go:linkname

	"go.uber.org/zap"
	_ "k8s.io/apiserver/pkg/storage/storagebackend/factory" // owner of the variable below
)

// etcdClientLogger is what the API server's etcd clients log to: standard error, with no option to
// change it, and with a line for every request that is cancelled when the server stops. Should the
// variable disappear in a later version, this one is without effect.
//
//go:linkname etcdClientLogger k8s.io/apiserver/pkg/storage/storagebackend/factory.etcd3ClientLogger
var etcdClientLogger *zap.Logger

// quietEtcdClients keeps the etcd clients off the terminal. Every client takes the logger when it
// is made, so once before the first is enough. What goes wrong with etcd is in the logs of both
// servers.
var quietEtcdClients = sync.OnceFunc(func() { etcdClientLogger = zap.NewNop() })
