package intent

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
)

// NIC is a network interface.
type NIC struct {
	*cloud.Interface
	Network *Network
	Private addrset.Set // addresses that group references cover
	// Ours and Foreign are the groups that it holds now.
	Ours, Foreign []string
	// Former are its native groups: what its owner wants it to hold.
	Former []string
	// Recorded is the content of the former-groups tag; nil without tag.
	Recorded []string
	// Forged is set if the tag says something else than Recorded, which is what is remembered or
	// was confirmed.
	Forged bool
	// Unsigned is set if the tag is believed although it is not signed, and Unproven says why it is
	// not believed, and nothing else is known.
	Unsigned bool
	Unproven *Reason
	// Outdated is set if a former key has signed the tag.
	Outdated bool
	// Alien says why it cannot be controlled at all; nil if it can. Elsewhere is that as far as
	// another controller or account is the reason.
	Alien, Elsewhere *Reason
	// Blocked is what the cloud says why it refuses to change it; empty if it does not. Under
	// control it stays as it is, else it is alien.
	Blocked string
	// Released says why it must not hold anything of ours in the end; nil if it may.
	Released *Reason
}

// Taken reports whether the interface is under our control now.
func (n *NIC) Taken() bool { return len(n.Ours) > 0 && n.Recorded != nil }

// Refused says that the cloud refuses to change the interface.
func (n *NIC) Refused() *Reason {
	return Why(CloudRefuses, n.ID).Quoting(n.Blocked)
}

// lacks reports whether the interface does not hold all of the groups that its record names.
func (n *NIC) lacks() bool {
	return slices.ContainsFunc(n.Recorded, func(id string) bool { return !slices.Contains(n.Foreign, id) })
}

// Controlled reports whether the interface is under our control, though somebody may have put it
// into other groups. One that holds its own groups, with or without ours, is not: it may be half
// way to us, or back.
func (n *NIC) Controlled() bool {
	if n.Taken() {
		return n.lacks()
	}
	return n.Recorded != nil && n.Alien == nil && !slices.Equal(n.Recorded, n.Foreign)
}

// HalfBack reports whether the interface has its own groups again, and still others that somebody
// has put it into while it was under control: giving it back is not done.
func (n *NIC) HalfBack() bool { return len(n.Ours) == 0 && n.Controlled() && !n.lacks() }

// formerTagSize is the length of a tag value in AWS, the shortest among the clouds.
const formerTagSize = 256

// Former returns the groups that an interface had before it was taken over, sorted, as its tags
// record them; nil without record.
func Former(n *cloud.Interface) []string { return cloud.FormerGroups(n.Tags) }

// FormerTagKey is the key of the i-th tag of the record of former groups.
func FormerTagKey(i int) string { return numbered(cloud.TagFormer, i) }

// numbered is the key of a tag's i-th continuation.
func numbered(key string, i int) string {
	if i == 0 {
		return key
	}
	return key + "." + strconv.Itoa(i)
}

// FormerTags are the tags that record the groups; there is at least one.
func FormerTags(groups []string) map[string]string {
	out := map[string]string{}
	value := strings.Join(groups, " ")
	for i := 0; i == 0 || value != ""; i++ {
		part := value[:min(len(value), formerTagSize-1)]
		if cut := strings.LastIndexByte(part, ' '); len(part) < len(value) && cut > 0 {
			part = part[:cut+1]
		}
		// Clouds may trim tag values, so the separator goes to the front of the next part.
		value = value[len(part):]
		if trimmed := strings.TrimRight(part, " "); trimmed != part {
			part, value = trimmed, " "+value
		}
		out[FormerTagKey(i)] = part
	}
	return out
}
