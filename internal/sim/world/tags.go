package world

import (
	"maps"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/native"
	"github.com/nephele-io/nephele/internal/sim/store"
)

// maxTagged is how many resources one CreateTags or DeleteTags call may name.
const maxTagged = 1000

// tagsOf finds the tags of a visible resource.
func (r *Region) tagsOf(id string, now time.Time) (*aws.Tags, error) {
	var tags *aws.Tags
	var visible time.Time
	d := r.s.Data
	switch aws.ResourceType(id) {
	case "vpc":
		if v := d.VPCs[id]; v != nil {
			tags, visible = &v.Tags, v.Visible
		}
	case "subnet":
		if s := d.Subnets[id]; s != nil {
			tags, visible = &s.Tags, s.Visible
		}
	case "security-group":
		if g := d.Groups[id]; g != nil {
			tags, visible = &g.Tags, g.Visible
		}
	case "security-group-rule":
		if g, i := d.Rule(id); g != nil {
			tags, visible = &g.Rules[i].Tags, g.Visible
		}
	case "network-interface":
		if n := d.NICs[id]; n != nil {
			tags, visible = &n.Tags, n.Visible
		}
	case "instance":
		if i := d.Instances[id]; i != nil {
			tags, visible = &i.Tags, i.Visible
		}
	case "prefix-list":
		if p := d.PrefixLists[id]; p != nil && p.OwnerID != aws.AWSOwned {
			tags, visible = &p.Tags, p.Visible
		}
	case "vpc-peering-connection":
		if p := r.s.Peerings()[id]; p != nil && (r.s.IsSide(p.Requester) || r.s.IsSide(p.Accepter)) {
			tags = &p.Tags
		}
	case "vpc-endpoint":
		if e := d.Services[aws.ServiceKey(native.Ref{Kind: native.Endpoint, Name: id})]; e != nil {
			tags = (*aws.Tags)(&e.Tags)
		}
	default:
		tags, visible = fabricTags(d, id)
	}
	if tags == nil {
		tags = r.s.TagsOnShared(id)
	}
	if tags == nil || !store.Seen(visible, now) {
		return nil, aws.NotFound(id)
	}
	return tags, nil
}

// CreateTags sets tags on resources. All or nothing.
func (r *Region) CreateTags(ids []string, tags []aws.Tag) error {
	return r.s.Mutate("CreateTags", func(now time.Time) ([]string, error) {
		if len(tags) == 0 {
			return nil, aws.Refuse("MissingParameter", "The request must contain the parameter Tag")
		}
		set := aws.Tags{}
		for _, t := range tags {
			if err := aws.CheckTag(t.Key, t.Value); err != nil {
				return nil, err
			}
			if _, ok := set[t.Key]; ok {
				return nil, aws.InvalidValue("Duplicate tag key '%s' specified.", t.Key)
			}
			set[t.Key] = t.Value
		}
		targets, err := r.tagTargets(ids, now)
		if err != nil {
			return nil, err
		}
		after := make([]aws.Tags, len(targets))
		for i, t := range targets {
			after[i] = aws.Tags{}
			maps.Copy(after[i], *t)
			maps.Copy(after[i], set)
			if err := r.s.CheckTagCount(after[i]); err != nil {
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
func (r *Region) DeleteTags(ids []string, keys []aws.TagKey) error {
	return r.s.Mutate("DeleteTags", func(now time.Time) ([]string, error) {
		targets, err := r.tagTargets(ids, now)
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			if err := aws.CheckTag(k.Key, ""); err != nil {
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

func (r *Region) tagTargets(ids []string, now time.Time) ([]*aws.Tags, error) {
	if len(ids) == 0 {
		return nil, aws.Refuse("MissingParameter", "The request must contain the parameter resourceIdSet")
	}
	if len(ids) > maxTagged {
		return nil, aws.Refuse("InvalidParameterValue", "The number of resources (%d) exceeds the maximum of %d", len(ids), maxTagged)
	}
	var out []*aws.Tags
	for _, id := range ids {
		t, err := r.tagsOf(id, now)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// fabricTags finds the tags of a route table, network ACL, gateway or template, and when it can be
// seen.
func fabricTags(d *aws.Resources, id string) (*aws.Tags, time.Time) {
	if t := d.Tables[id]; t != nil {
		return &t.Tags, t.Visible
	}
	if a := d.ACLs[id]; a != nil {
		return &a.Tags, a.Visible
	}
	if g := d.Gateways[id]; g != nil {
		return &g.Tags, g.Visible
	}
	if t := d.Templates[id]; t != nil {
		return &t.Tags, t.Visible
	}
	return nil, time.Time{}
}

// eachFabricTags calls add with the tags of each of them.
func eachFabricTags(d *aws.Resources, add func(id string, tags aws.Tags, visible time.Time)) {
	for id, t := range d.Tables {
		add(id, t.Tags, t.Visible)
	}
	for id, a := range d.ACLs {
		add(id, a.Tags, a.Visible)
	}
	for id, g := range d.Gateways {
		add(id, g.Tags, g.Visible)
	}
	for id, t := range d.Templates {
		add(id, t.Tags, t.Visible)
	}
}
