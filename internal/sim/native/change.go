package native

import (
	"fmt"
	"maps"
	"slices"
)

// WithTags returns tags with some set and some removed; the given map stays as it is.
func WithTags(tags, set map[string]string, remove []string) (map[string]string, error) {
	after := maps.Clone(tags)
	if after == nil {
		after = map[string]string{}
	}
	for k, v := range set {
		if err := CheckTag(k, v); err != nil {
			return nil, err
		}
		after[k] = v
	}
	for _, k := range remove {
		delete(after, k)
	}
	if len(after) > MaxTags {
		return nil, fmt.Errorf("the resource cannot have more than %d tags", MaxTags)
	}
	return after, nil
}

// NextWriter makes the member after the present writer the writer, and returns it; nil if there is
// no other.
func NextWriter(members []*Service) *Service {
	if len(members) < 2 {
		return nil
	}
	at := max(0, slices.IndexFunc(members, func(m *Service) bool { return m.Writer }))
	members[at].Writer = false
	next := members[(at+1)%len(members)]
	next.Writer = true
	return next
}

// Scaled returns nodes of which, once the first surplus ones are taken away, there are perSubnet in
// each subnet. The oldest are those in surplus.
func Scaled(nodes []Node, subnets []string, perSubnet int) (grown []Node, surplus int) {
	have := map[string]int{}
	for _, n := range nodes {
		have[n.SubnetID]++
	}
	var going, staying []Node
	for _, n := range nodes {
		if have[n.SubnetID] > perSubnet {
			have[n.SubnetID]--
			going = append(going, n)
		} else {
			staying = append(staying, n)
		}
	}
	for _, subnet := range subnets {
		for ; have[subnet] < perSubnet; have[subnet]++ {
			staying = append(staying, Node{SubnetID: subnet})
		}
	}
	return append(going, staying...), len(going)
}

// Behind returns the services whose addresses the host name of a service leads to: itself, or
// its members: of a file system all, of others the writer or the readers. A lone member
// does both.
func Behind(s *Service, members []*Service, readers bool) []*Service {
	switch {
	case len(members) == 0:
		return []*Service{s}
	case s.Kind == FileSystem || len(members) == 1:
		return members
	}
	return slices.DeleteFunc(slices.Clone(members), func(m *Service) bool { return m.Writer == readers })
}

// MembersOf returns the members of a cluster, replication group or file system among services.
func MembersOf(of Ref, among []Service) (out []Service) {
	for i := range among {
		if among[i].Parent != "" && among[i].ParentRef() == of {
			out = append(out, among[i])
		}
	}
	return out
}
