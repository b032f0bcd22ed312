package ec2

import (
	"strconv"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

func describeManagedPrefixLists(r *request) ([]wire.Element, error) {
	lists, err := r.region.Lists().PrefixLists(r.params.Strings("PrefixListId")...)
	if err != nil {
		return nil, err
	}
	region := r.region.Name()
	page, err := list(r, listing[aws.PrefixList]{
		items: lists,
		key:   func(l aws.PrefixList) string { return l.ID },
		known: wire.Attributes[aws.PrefixList]{
			"owner-id":         func(l aws.PrefixList) []string { return []string{l.OwnerID} },
			"prefix-list-id":   func(l aws.PrefixList) []string { return []string{l.ID} },
			"prefix-list-name": func(l aws.PrefixList) []string { return []string{l.Name} },
		},
		tags: func(l aws.PrefixList) map[string]string { return l.Tags },
		page: pageRule{min: 1, max: 100, whole: 100},
	})
	if err != nil {
		return nil, err
	}
	return pageOf("prefixListSet", page, func(l aws.PrefixList) []wire.Element { return codec.PrefixListBody(region, l) }), nil
}

func getManagedPrefixListEntries(r *request) ([]wire.Element, error) {
	id, err := need(r, "PrefixListId")
	if err != nil {
		return nil, err
	}
	version, _, err := r.params.Int("TargetVersion")
	if err != nil {
		return nil, err
	}
	entries, err := r.region.Lists().PrefixListEntries(id, version)
	if err != nil {
		return nil, err
	}
	page, err := list(r, listing[aws.PrefixListEntry]{
		items: entries,
		key:   func(e aws.PrefixListEntry) string { return e.CIDR.String() },
		page:  pageRule{min: 1, max: 100, whole: 100},
	})
	if err != nil {
		return nil, err
	}
	return pageOf("entrySet", page, codec.EntryBody), nil
}

// maxEntryChanges is how many entries one call may add, and how many it may remove.
const maxEntryChanges = 100

func createManagedPrefixList(r *request) ([]wire.Element, error) {
	tags, err := codec.TagSpec(r.params, "prefix-list")
	if err != nil {
		return nil, err
	}
	in := aws.CreatePrefixListInput{ClientToken: r.params.String("ClientToken"), Tags: tags}
	if in.Name, err = need(r, "PrefixListName"); err != nil {
		return nil, err
	}
	if in.Family, err = need(r, "AddressFamily"); err != nil {
		return nil, err
	}
	if in.MaxEntries, err = needCount(r, "MaxEntries"); err != nil {
		return nil, err
	}
	if in.Entries, err = entryChanges(r, "Entry"); err != nil {
		return nil, err
	}
	created, err := r.region.Lists().CreatePrefixList(in)
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.Node("prefixList", codec.PrefixListBody(r.region.Name(), created)...)}, nil
}

func entryChanges(r *request, key string) ([]aws.EntrySpec, error) {
	list := codec.Entries(r.params, key)
	if len(list) > maxEntryChanges {
		return nil, codec.InvalidValue("%s holds %s entries, at most %d are possible in one call",
			key, strconv.Itoa(len(list)), maxEntryChanges)
	}
	return list, nil
}

func modifyManagedPrefixList(r *request) ([]wire.Element, error) {
	id, err := need(r, "PrefixListId")
	if err != nil {
		return nil, err
	}
	in := aws.ModifyPrefixListInput{PrefixListID: id, Name: codec.StringPtr(r.params, "PrefixListName")}
	if in.CurrentVersion, err = optionalInt(r, "CurrentVersion"); err != nil {
		return nil, err
	}
	if in.MaxEntries, err = optionalInt(r, "MaxEntries"); err != nil {
		return nil, err
	}
	if in.Add, err = entryChanges(r, "AddEntry"); err != nil {
		return nil, err
	}
	removed, err := entryChanges(r, "RemoveEntry")
	if err != nil {
		return nil, err
	}
	for _, e := range removed {
		in.Remove = append(in.Remove, e.CIDR)
	}
	changed, err := r.region.Lists().ModifyPrefixList(in)
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.Node("prefixList", codec.PrefixListBody(r.region.Name(), changed)...)}, nil
}

func optionalInt(r *request, key string) (*int, error) {
	v, ok, err := r.params.Int(key)
	if err != nil || !ok {
		return nil, err
	}
	return &v, nil
}

func deleteManagedPrefixList(r *request) ([]wire.Element, error) {
	id, err := need(r, "PrefixListId")
	if err != nil {
		return nil, err
	}
	deleted, err := r.region.Lists().DeletePrefixList(id)
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.Node("prefixList", codec.PrefixListBody(r.region.Name(), deleted)...)}, nil
}
