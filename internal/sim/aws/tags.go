package aws

import (
	"maps"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/native"
)

// Tag is one tag of a CreateTags request.
type Tag struct{ Key, Value string }

// TagKey names a tag to delete: the one with this key, and if Value is not nil only while it has
// that value.
type TagKey struct {
	Key   string
	Value *string
}

// maxTagged is how many resources one CreateTags or DeleteTags call may name.
const maxTagged = 1000

func cloneTags(t Tags) Tags { return maps.Clone(t) }

func checkTag(key, value string) error {
	switch {
	case key == "" || len([]rune(key)) > 127:
		return invalidValue("Tag key must be between 1 and 127 characters long")
	case len([]rune(value)) > 255:
		return invalidValue("Tag value exceeds the maximum length of 255 characters")
	case strings.HasPrefix(strings.ToLower(key), "aws:"):
		return invalidValue("Tag keys starting with 'aws:' are reserved for internal use")
	}
	return nil
}

// checkNewTags checks the tags of a resource that is being created.
func (r *site) checkNewTags(t Tags) error {
	for k, v := range t {
		if err := checkTag(k, v); err != nil {
			return err
		}
	}
	return r.checkTagCount(t)
}

func (r *site) checkTagCount(t Tags) error {
	n := 0
	for k := range t {
		if !strings.HasPrefix(k, "aws:") {
			n++
		}
	}
	if n > r.w.quotas(r.at.account).TagsPerResource {
		return refuse("TagLimitExceeded", "The maximum number of Tags for a resource has been reached.")
	}
	return nil
}

// tagsOf finds the tags of a visible resource.
func (r *Region) tagsOf(id string, now time.Time) (*Tags, error) {
	var tags *Tags
	var visible time.Time
	d := r.data
	switch ResourceType(id) {
	case "vpc":
		if v := d.vpcs[id]; v != nil {
			tags, visible = &v.Tags, v.Visible
		}
	case "subnet":
		if s := d.subnets[id]; s != nil {
			tags, visible = &s.Tags, s.Visible
		}
	case "security-group":
		if g := d.groups[id]; g != nil {
			tags, visible = &g.Tags, g.Visible
		}
	case "security-group-rule":
		if g, i := d.rule(id); g != nil {
			tags, visible = &g.Rules[i].Tags, g.Visible
		}
	case "network-interface":
		if n := d.nics[id]; n != nil {
			tags, visible = &n.Tags, n.Visible
		}
	case "instance":
		if i := d.instances[id]; i != nil {
			tags, visible = &i.Tags, i.Visible
		}
	case "prefix-list":
		if p := d.prefixLists[id]; p != nil && p.OwnerID != AWSOwned {
			tags, visible = &p.Tags, p.Visible
		}
	case "vpc-peering-connection":
		if p := r.w.peerings[id]; p != nil && (sideScope(p.Requester) == r.at || sideScope(p.Accepter) == r.at) {
			tags = &p.Tags
		}
	case "vpc-endpoint":
		if e := d.services[serviceKey(native.Ref{Kind: native.Endpoint, Name: id})]; e != nil {
			tags = (*Tags)(&e.Tags)
		}
	default:
		tags, visible = d.fabric.tagsOf(id)
	}
	if tags == nil {
		tags = r.tagsOnShared(id)
	}
	if tags == nil || !seen(visible, now) {
		return nil, NotFound(id)
	}
	return tags, nil
}

// rule finds a rule by id: its group and its index there.
func (d *regionData) rule(id string) (*SecurityGroup, int) {
	for _, g := range d.groups {
		for i := range g.Rules {
			if g.Rules[i].ID == id {
				return g, i
			}
		}
	}
	return nil, 0
}

// CreateTags sets tags on resources. All or nothing.
func (r *Region) CreateTags(ids []string, tags []Tag) error {
	return r.mutate("CreateTags", func(now time.Time) ([]string, error) {
		if len(tags) == 0 {
			return nil, refuse("MissingParameter", "The request must contain the parameter Tag")
		}
		set := Tags{}
		for _, t := range tags {
			if err := checkTag(t.Key, t.Value); err != nil {
				return nil, err
			}
			if _, ok := set[t.Key]; ok {
				return nil, invalidValue("Duplicate tag key '%s' specified.", t.Key)
			}
			set[t.Key] = t.Value
		}
		targets, err := r.tagTargets(ids, now)
		if err != nil {
			return nil, err
		}
		after := make([]Tags, len(targets))
		for i, t := range targets {
			after[i] = Tags{}
			maps.Copy(after[i], *t)
			maps.Copy(after[i], set)
			if err := r.checkTagCount(after[i]); err != nil {
				return nil, err
			}
		}
		for i, t := range targets {
			*t = after[i]
		}
		return ids, nil
	})
}

// DeleteTags removes tags from resources; no keys means all tags. A tag that is not there is no
// error.
func (r *Region) DeleteTags(ids []string, keys []TagKey) error {
	return r.mutate("DeleteTags", func(now time.Time) ([]string, error) {
		targets, err := r.tagTargets(ids, now)
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			if err := checkTag(k.Key, ""); err != nil {
				return nil, err
			}
		}
		for _, t := range targets {
			if len(keys) == 0 {
				maps.DeleteFunc(*t, func(k, _ string) bool { return !strings.HasPrefix(k, "aws:") })
			}
			for _, k := range keys {
				if v, ok := (*t)[k.Key]; ok && (k.Value == nil || *k.Value == v) {
					delete(*t, k.Key)
				}
			}
		}
		return ids, nil
	})
}

func (r *Region) tagTargets(ids []string, now time.Time) ([]*Tags, error) {
	if len(ids) == 0 {
		return nil, refuse("MissingParameter", "The request must contain the parameter resourceIdSet")
	}
	if len(ids) > maxTagged {
		return nil, refuse("InvalidParameterValue", "The number of resources (%d) exceeds the maximum of %d", len(ids), maxTagged)
	}
	var out []*Tags
	for _, id := range ids {
		t, err := r.tagsOf(id, now)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}
