package ec2

import (
	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

// pageRule says what MaxResults a describe action takes.
type pageRule struct {
	min, max int
	// whole is the page size when the caller does not ask for one; 0 means everything.
	whole int
	// ids, when set, is the id list that must not be combined with MaxResults, as the service names
	// it.
	ids, idsName string
}

// listing is what a describe action chooses from.
type listing[T any] struct {
	items []T
	// key orders the objects and must be unique.
	key   func(T) string
	known wire.Attributes[T]
	tags  wire.Tags[T]
	page  pageRule
}

// list applies filters and paging of the request.
func list[T any](r *request, l listing[T]) (wire.Page[T], error) {
	filters, err := r.params.Filters()
	if err != nil {
		return wire.Page[T]{}, err
	}
	chosen, err := wire.Select(l.items, filters, l.known, l.tags)
	if err != nil {
		return wire.Page[T]{}, err
	}
	size, err := pageSize(r, l.page)
	if err != nil {
		return wire.Page[T]{}, err
	}
	return wire.Cut(chosen, l.key, wire.Paging{
		Request: wire.Fingerprint(r.params, r.call.Account, r.call.Region),
		Token:   r.params.String("NextToken"),
		Size:    size,
	})
}

func pageSize(r *request, rule pageRule) (int, error) {
	size, ok, err := r.params.Int("MaxResults")
	if err != nil {
		return 0, err
	}
	if !ok {
		return rule.whole, nil
	}
	if rule.ids != "" && r.params.Has(rule.ids) {
		return 0, codec.Fail("InvalidParameterCombination", "The parameter %s cannot be used with the parameter maxResults", rule.idsName)
	}
	if size < rule.min {
		return 0, codec.InvalidValue("Value ( %d ) for parameter maxResults is invalid. Expecting a value greater than %d.", size, rule.min)
	}
	if rule.max > 0 && size > rule.max {
		return 0, codec.InvalidValue("Value ( %d ) for parameter maxResults is invalid. Expecting a value less than %d.", size, rule.max)
	}
	return size, nil
}

// pageOf writes a page as the set of a describe answer.
func pageOf[T any](name string, p wire.Page[T], item func(T) []wire.Element) []wire.Element {
	return []wire.Element{wire.List(name, p.Items, item), wire.Text("nextToken", p.Next)}
}
