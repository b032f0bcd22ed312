package ec2

import (
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

func describeTags(r *request) ([]wire.Element, error) {
	page, err := list(r, listing[aws.ResourceTag]{
		items: r.region.Tags(),
		key:   func(t aws.ResourceTag) string { return t.ResourceID + "\x00" + t.Key },
		known: wire.Attributes[aws.ResourceTag]{
			"resource-id":   func(t aws.ResourceTag) []string { return []string{t.ResourceID} },
			"resource-type": func(t aws.ResourceTag) []string { return []string{t.ResourceType} },
			"key":           func(t aws.ResourceTag) []string { return []string{t.Key} },
			"value":         func(t aws.ResourceTag) []string { return []string{t.Value} },
		},
		tags: func(t aws.ResourceTag) map[string]string { return map[string]string{t.Key: t.Value} },
		page: pageRule{min: 5, max: 1000, whole: 1000},
	})
	if err != nil {
		return nil, err
	}
	return pageOf("tagSet", page, func(t aws.ResourceTag) []wire.Element {
		return []wire.Element{
			wire.Text("resourceId", t.ResourceID), wire.Text("resourceType", t.ResourceType),
			{Name: "key", Text: t.Key}, {Name: "value", Text: t.Value},
		}
	}), nil
}

// maxTagged is how many resources, and on delete how many tags, one call may name.
const maxTagged = 1000

func createTags(r *request) ([]wire.Element, error) {
	ids, err := taggedIDs(r)
	if err != nil {
		return nil, err
	}
	set, err := codec.TagList(r.params, "Tag")
	if err != nil {
		return nil, err
	}
	if len(set) == 0 {
		return nil, codec.Missing("Tag")
	}
	tags := make([]aws.Tag, 0, len(set))
	for _, k := range set.Keys() {
		tags = append(tags, aws.Tag{Key: k, Value: set[k]})
	}
	return done(r.region.CreateTags(ids, tags))
}

func deleteTags(r *request) ([]wire.Element, error) {
	ids, err := taggedIDs(r)
	if err != nil {
		return nil, err
	}
	var keys []aws.TagKey
	for _, t := range r.params.Elements("Tag") {
		key := t.String("Key")
		if key == "" {
			return nil, codec.InvalidValue("Tag keys cannot be empty")
		}
		keys = append(keys, aws.TagKey{Key: key, Value: codec.StringPtr(t, "Value")})
	}
	if len(keys) > maxTagged {
		return nil, codec.InvalidValue("The request names %d tags, at most %d can be deleted at once", len(keys), maxTagged)
	}
	return done(r.region.DeleteTags(ids, keys))
}

func taggedIDs(r *request) ([]string, error) {
	ids, err := needList(r, "ResourceId")
	if err == nil && len(ids) > maxTagged {
		err = codec.InvalidValue("The request names %d resources, at most %d are possible", len(ids), maxTagged)
	}
	return ids, err
}
