package realize

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// mostIgnored is how many interfaces are named whose change was ignored.
const mostIgnored = 3

// ignored says of which interfaces a change was answered as done and is not to be seen in a later
// reading: the service ignores it, or somebody else has changed it since. Empty if all is as it was
// left.
func (b *bookkeeping) ignored(seen observation) string {
	var found []string
	for _, r := range seen.regions {
		l := b.ledgers[r.Snapshot.Region]
		if l == nil {
			continue
		}
		l.mu.Lock()
		for _, id := range slices.Sorted(maps.Keys(l.groups)) {
			n := r.Snapshot.Interface(id)
			if n == nil {
				continue
			}
			want, has := l.groups[id], slices.Sorted(slices.Values(n.GroupIDs))
			if !slices.Equal(want, has) {
				found = append(found, cloud.ShortIDs(fmt.Sprintf("interface %s was given the groups %s, and the call was answered as done, but it has %s", r.Snapshot.FullName(id), groupList(want), groupList(has))))
			}
		}
		l.mu.Unlock()
	}
	return strings.Join(cloud.Some(found, mostIgnored, render.SeeAll), "; ")
}

func groupList(ids []string) string { return "[" + strings.Join(ids, " ") + "]" }

// notAsPlanned is the error after so many plans that the account could have become as planned.
func notAsPlanned(last error, ignored string) error {
	text := fmt.Sprintf("the cloud is still not as planned after %d plans in a row", maxPlans)
	switch {
	case ignored != "" && last != nil:
		return fmt.Errorf("%s: %s; %w", text, ignored, last)
	case ignored != "":
		return fmt.Errorf("%s: %s; does the service ignore such changes, or does somebody else change it?", text, ignored)
	case last != nil:
		return fmt.Errorf("%s: %w", text, last)
	}
	return fmt.Errorf("%s; does somebody else change it?", text)
}
