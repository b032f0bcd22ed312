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
// Promises: whatever has been acknowledged to an API client is there after a restart, also after
// SIGKILL at any instant. Callers are authenticated by client certificate or ServiceAccount token
// and authorized by RBAC; nobody is anonymous, and there is no fixed token. The administrator's
// rights are those of a ClusterRoleBinding, which each start puts back. What is in a Secret reaches
// the disk encrypted only; the key is in the data directory, so that this protects backups and
// copies of the database alone, not of the whole. Admission webhooks are asked with a client
// certificate. etcd listens on the loopback interface only and asks for a certificate that only the
// API server has.
//
// Concurrency: a ControlPlane's methods are safe for concurrent use. Every goroutine that this
// package starts has ended when Stop returns without an error. The Kubernetes libraries keep state
// per process (logging, metrics, feature gates), so one control plane may run in a process at a
// time; another one can be started after Stop.
package controlplane
