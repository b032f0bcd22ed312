// Package credential holds the credentials of a host with an agent: the token by which it enrolls,
// the certificate or ServiceAccount token that it has afterwards, and how it gets and renews them.
//
// It is the host's side of package enroll, which judges these credentials in the cluster, and
// imports nothing of it. Functions keep nothing and may be called from anywhere.
package credential

import (
	"fmt"
	"strings"
)

// accountPrefix begins the names of the ServiceAccounts of hosts.
const accountPrefix = "nephele-agent-"

// Host identifies the client that enrolls: the host of an ExternalNode or, without a Namespace, a
// member of the set, by the name of its Cluster.
type Host struct{ Namespace, Name string }

// Cluster is the Host that a Cluster stands for.
func Cluster(name string) Host { return Host{Name: name} }

// IsCluster reports whether it is a member of the set.
func (h Host) IsCluster() bool { return h.Namespace == "" }

// ParseHost reads NAMESPACE/NAME.
func ParseHost(text string) (Host, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return Host{}, fmt.Errorf("%q: want NAMESPACE/NAME of an ExternalNode", text)
	}
	return Host{namespace, name}, nil
}

// String is NAMESPACE/NAME, the key of the host; of a Cluster "cluster NAME", which is the key of
// nobody.
func (h Host) String() string {
	if h.IsCluster() {
		return "cluster " + h.Name
	}
	return h.Namespace + "/" + h.Name
}

// InfoName is how the AntreaAgentInfo of the host is called where its own name is taken. Namespaces
// hold no dot, so that no two hosts share it.
func (h Host) InfoName() string { return h.Namespace + "." + h.Name }

// Account is the name of the host's ServiceAccount, and of its Role.
func (h Host) Account() string { return accountPrefix + h.Name }
