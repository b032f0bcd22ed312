package input

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/selection"
)

// Account is a cloud account as it was read.
type Account struct {
	// Key is "namespace/name" of the CloudProviderAccount.
	Key       string
	Snapshots []*cloud.Snapshot
	// ACLs are the network ACLs of its subnets that do not come with the snapshots, if they were
	// read.
	ACLs []cloud.NetworkACL
	// VMs are the machines behind the ExternalEntities, and Services the native services and
	// interfaces behind others of them.
	VMs      map[types.NamespacedName]selection.VMRef
	Services map[types.NamespacedName]selection.ServiceRef
}
