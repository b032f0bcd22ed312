// Package controlplane runs a Kubernetes control plane inside the process: etcd, kube-apiserver,
// and the controllers of kube-controller-manager that a user would miss: namespace deletion,
// garbage collection by owner references, ServiceAccounts with their tokens and root certificate,
// and aggregated ClusterRoles.
//
// Everything it knows is in one data directory, which it locks against a second process:
//
//	kubeconfig    for people and programs, with the administrator's client certificate
//	pki/          certificate authorities, certificates and keys, made on the first start and renewed in time; encryption.yaml has the key
//	              of Secrets
//	etcd/         the database
//	logs/         what etcd and the Kubernetes libraries have to say
//	lock          held while a process runs; the kernel frees it when that process dies
//
// Promises: a write that was acknowledged to an API client survives a restart, even after SIGKILL
// at any instant. Callers are authenticated by client certificate or ServiceAccount token and
// authorized by RBAC; there are no anonymous callers and no fixed token. A ClusterRoleBinding,
// restored at each start, gives the administrator its rights. Secrets are encrypted on disk. The
// key is in the data directory, so encryption protects backups and copies of the database, but not
// copies of the whole directory. Admission webhooks are asked with a client certificate. etcd
// listens on the loopback interface only and asks for a certificate that only the API server has.
//
// Concurrency: a ControlPlane's methods are safe for concurrent use. When Stop returns without an
// error, every goroutine of this package has ended. The Kubernetes libraries keep state per process
// (logging, metrics, feature gates), so one control plane may run in a process at a time; another
// one can be started after Stop.
package controlplane
