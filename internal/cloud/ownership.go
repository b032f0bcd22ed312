package cloud

import (
	"maps"
	"strings"
)

// Tags are Nephele's only memory in the cloud. A group is ours exactly if it carries TagCluster
// with our cluster's id.
const (
	// TagCluster holds the id of the controller that owns the object.
	TagCluster = "nephele.io/cluster"
	// TagKind holds what the object is to us: one of the Kind values.
	TagKind = "nephele.io/kind"
	// TagAccount holds the account, "namespace/name".
	TagAccount = "nephele.io/account"
	// TagClass holds the hash of the class that a group was created for.
	TagClass = "nephele.io/class"
	// TagFormer and its numbered continuations hold the groups an interface had before it was taken
	// over, separated by spaces. A tag value is at most 256 characters, so TagFormer,
	// TagFormer+".1", ... are concatenated in order.
	TagFormer = "nephele.io/former-groups"
	// TagName is the name that people see in the cloud's console. It is written when something is
	// created, says what that was made for, and is never read: it identifies nothing.
	TagName = "Name"
	// TagSignature on an interface proves that we have written TagFormer.
	TagSignature = "nephele.io/former-signature"
	// TagPolicies and its numbered continuations on the group of a class name the policies that are
	// in force on the interfaces that hold it.
	TagPolicies = "nephele.io/policies"
	// TagRevision, with a name of the account after it, on a network identifies the policies of the
	// account that are in force in it, whatever the members of their groups: while it is that of
	// the policies that are wanted, nothing but memberships differs.
	TagRevision = "nephele.io/policies-revision"
	// TagFollow on a security group of somebody else lets us add rules to it: beside each rule that
	// names a group which interfaces under control give up, a twin that names theirs. Its owner
	// writes it; the value has no meaning.
	TagFollow = "nephele.io/follow"
	// TagGuard on a native service lets us set its security groups, where the right to do so lets
	// much else be done, too: the published rights ask for it. Its owner writes it; the value has
	// no meaning, and nothing else looks at it.
	TagGuard = "nephele.io/guard"
	// TagClaim on a network holds the id of the controller that may enforce in it.
	TagClaim = "nephele.io/claimed-by"
	// TagInstance on a claimed network holds the mark of the process that enforces in it; see
	// package tenure. It changes all the time.
	TagInstance = "nephele.io/instance"
)

// KindClass is the TagKind of the group of a class of interfaces.
const KindClass = "class"

// NamePrefix starts the name of every group of ours.
const NamePrefix = "nephele-"

// OwnedBy reports whether the group belongs to the controller with this cluster id: tags and name
// pattern both say so.
func (g *Group) OwnedBy(clusterID string) bool {
	return clusterID != "" && g.Tags[TagCluster] == clusterID && g.Tags[TagKind] != "" && strings.HasPrefix(g.Name, NamePrefix)
}

// LastingTags are the tags of a network without the mark of the instance that enforces in it, which
// changes with every heartbeat.
func LastingTags(tags map[string]string) map[string]string {
	if _, marked := tags[TagInstance]; !marked {
		return tags
	}
	out := maps.Clone(tags)
	delete(out, TagInstance)
	return out
}
