package intent

import (
	"cmp"
	"fmt"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// EntityRef names an ExternalEntity.
type EntityRef struct{ Namespace, Name string }

func (e EntityRef) String() string { return e.Namespace + "/" + e.Name }

// Compare orders by namespace and name.
func (e EntityRef) Compare(o EntityRef) int {
	return cmp.Or(cmp.Compare(e.Namespace, o.Namespace), cmp.Compare(e.Name, o.Name))
}

// VMRef names a VM of the account.
type VMRef struct{ Region, ID string }

// InterfaceKey names an interface of the account.
type InterfaceKey struct{ Region, ID string }

// GroupKey names a security group of the account.
type GroupKey struct{ Region, ID string }

// NetworkKey names a network that the account sees.
type NetworkKey struct{ Region, ID string }

// Observed is what is known of one region.
type Observed struct {
	Snapshot *cloud.Snapshot
	Limits   cloud.Limits
	// Former are the groups that interfaces which hold groups of ours had before, as far as the
	// caller remembers them from a time when all was as planned, sorted, by interface; nil for
	// those that were to have no record. They go before the record in an interface's tags, which is
	// then put right.
	Former map[string][]string
}

// PolicyRef names a policy and its version.
type PolicyRef struct {
	Kind       v1beta2.NetworkPolicyType
	Namespace  string
	Name       string
	UID        string
	Generation int64
}

// Note is a remark about an object.
type Note struct {
	Region string
	Object string
	Why    *reason.Reason
	// Message says why in a sentence.
	Message string
}

func (r PolicyRef) String() string { return fmt.Sprintf("%s %s", r.Kind, r.Short()) }

// Short is the name without the kind.
func (r PolicyRef) Short() string {
	if r.Namespace == "" {
		return cmp.Or(r.Name, r.UID)
	}
	return r.Namespace + "/" + r.Name
}

func (r VMRef) String() string { return r.Region + "/" + r.ID }

// Compare orders by region and ID.
func (r VMRef) Compare(o VMRef) int {
	return cmp.Or(cmp.Compare(r.Region, o.Region), cmp.Compare(r.ID, o.ID))
}

// EntityOf is the entity that a member of a group is; the zero value, which names none, for others.
func EntityOf(m *v1beta2.GroupMember) EntityRef {
	if m.ExternalEntity == nil {
		return EntityRef{}
	}
	return EntityRef{m.ExternalEntity.Namespace, m.ExternalEntity.Name}
}
