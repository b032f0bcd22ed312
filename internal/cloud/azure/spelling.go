package azure

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/resources"
)

// The cloud compares ids without regard to case, and gives them back as they were written. The port
// has them in lower case. Programs that compare texts, such as Terraform, would see a change if an
// interface got its former group back in another case. So records of former groups keep ids as the
// interface had them: they are spelled so when a record is written, read in lower case, and spelled
// so again when the group is given back. Where no one knows how an interface had it, the id is
// spelled as the group itself has it.

// spellings are ids as they are written.
type spellings struct {
	mu sync.Mutex
	// held are the ids that single interfaces hold or remember, the latest last.
	held map[string][]string
	// groups are the ids that groups have themselves.
	groups map[string]string
}

// maxSpellings bounds how many ids are remembered of one interface: what it holds, and what it
// held before somebody changed that or what it remembers.
const maxSpellings = 4

// learn takes what a region shows.
func (s *spellings) learn(w *resources.Region) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held, s.groups = map[string][]string{}, map[string]string{}
	}
	for key, g := range w.Groups {
		s.groups[key] = g.ID
	}
	for key, n := range w.NICs {
		ids := resources.SpelledGroups(n.Tags)
		if n.NSG != nil {
			ids = append(ids, n.NSG.ID)
		}
		for _, id := range ids {
			if id == strings.ToLower(id) || slices.Contains(s.held[key], id) {
				continue
			}
			known := append(s.held[key], id)
			s.held[key] = known[max(0, len(known)-maxSpellings):]
		}
	}
}

// of is the id of a group as an interface has or had it, or else as the group itself has it.
func (s *spellings) of(nic, group string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Backward(s.held[strings.ToLower(nic)]) {
		if strings.EqualFold(id, group) {
			return id
		}
	}
	if id := s.groups[strings.ToLower(group)]; strings.EqualFold(id, group) {
		return id
	}
	return group
}

// spelled returns tags of an interface in which the record of its former groups has the ids as they
// are known to be written.
func (s *spellings) spelled(nic string, tags map[string]string) map[string]string {
	var keys []string
	value := ""
	for i := 0; ; i++ {
		key := cloud.TagFormer
		if i > 0 {
			key += "." + strconv.Itoa(i)
		}
		part, there := tags[key]
		if !there {
			break
		}
		keys, value = append(keys, key), value+part
	}
	if len(keys) == 0 {
		return tags
	}
	for _, id := range strings.Fields(value) {
		if group, ok := resources.GroupOfView(id); ok && group != "" {
			if known := s.of(nic, group); len(known) == len(group) {
				value = strings.Replace(value, group, known, 1)
			}
		}
	}
	out := make(map[string]string, len(tags))
	for key, v := range tags {
		out[key] = v
	}
	for _, key := range keys {
		n := len(tags[key])
		out[key], value = value[:n], value[n:]
	}
	return out
}

// givenBackAs is the id of a group as the interface remembers it, or else as it is known.
func (s *spellings) givenBackAs(n *armnetwork.Interface, group string) string {
	for _, id := range resources.SpelledGroups(n.Tags) {
		if strings.EqualFold(id, group) && id != strings.ToLower(id) {
			return id
		}
	}
	if n.ID != nil {
		return s.of(*n.ID, group)
	}
	return group
}
