package admission

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
)

// HostBits returns the blocks of addresses of a policy that are written with bits that do not
// count: 10.1.2.3/16 is not the address 10.1.2.3.
func HostBits(p *policy.Policy) []policy.FieldError {
	c := &checker{}
	check := func(text, path string) {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || prefix == prefix.Masked() {
			return
		}
		c.add(path, text, fmt.Sprintf("%s, which it means, or %s for the one address", prefix.Masked(), netip.PrefixFrom(prefix.Addr(), prefix.Addr().BitLen())))
	}
	eachPeer(p, func(path string, x *policy.Peer) {
		if x.IPBlock != nil {
			check(x.IPBlock.CIDR, path+".ipBlock.cidr")
			for i, except := range x.IPBlock.Except {
				check(except, at(path+".ipBlock.except", i))
			}
		}
		for i, network := range x.Networks {
			check(network, at(path+".networks", i))
		}
	})
	return c.errs
}

// NoSuchGroup returns the groups that a policy names and that do not exist. Known are the Groups of
// its Namespace, or the ClusterGroups.
func NoSuchGroup(p *policy.Policy, known []string) []policy.FieldError {
	c := &checker{}
	there := map[string]bool{}
	for _, name := range known {
		there[name] = true
	}
	check := func(name, path string) {
		if name != "" && !there[name] && len(c.errs) < mostSought {
			c.add(path, name, oneOf("a group that exists", name, known))
		}
	}
	eachAppliedTo(p, func(path string, a *policy.AppliedTo) { check(a.Group, path+".group") })
	eachPeer(p, func(path string, x *policy.Peer) { check(x.Group, path+".group") })
	return c.errs
}

// NoSuchTier returns what is to be said of a tier that does not exist; nil if it does or none is
// named.
func NoSuchTier(tier string, known []string) []policy.FieldError {
	if tier == "" || slices.Contains(known, tier) || strings.Contains(legacyTiers, " "+tier+" ") {
		return nil
	}
	return []policy.FieldError{{Field: "spec.tier", Value: tier, Want: oneOf("the name of an existing Tier", tier, known)}}
}

// Entity is an ExternalEntity, or a Pod, as far as selectors look at it.
type Entity struct {
	Namespace string
	Labels    map[string]string
}

// SelectsNobody returns the selectors of ExternalEntities in a policy that select none of those
// that there are, with what they may have meant. Empty selectors, and those that also look at
// Namespaces, may select what is not there yet and are left alone.
func SelectsNobody(p *policy.Policy, entities iter.Seq[Entity]) []policy.FieldError {
	asked := appliedSelectors(p)
	eachPeer(p, func(path string, x *policy.Peer) {
		if x.Namespaces == nil {
			asked = asking(asked, path+".externalEntitySelector", "some ExternalEntity", x.ExternalEntitySelector, x.NamespaceSelector)
		}
	})
	return nobody(p, asked, entities)
}

// AppliesToNobody is SelectsNobody for what a policy applies to alone, and for Pods as well, unless
// nil says that these are not known.
func AppliesToNobody(p *policy.Policy, entities, pods iter.Seq[Entity]) []policy.FieldError {
	var asked []*selecting
	eachAppliedTo(p, func(path string, a *policy.AppliedTo) {
		asked = asking(asked, path+".podSelector", "some Pod", a.PodSelector, a.NamespaceSelector)
	})
	if pods == nil {
		asked = nil
	}
	return append(nobody(p, appliedSelectors(p), entities), nobody(p, asked, pods)...)
}

func appliedSelectors(p *policy.Policy) (asked []*selecting) {
	eachAppliedTo(p, func(path string, a *policy.AppliedTo) {
		asked = asking(asked, path+".externalEntitySelector", "some ExternalEntity", a.ExternalEntitySelector, a.NamespaceSelector)
	})
	return asked
}

func asking(asked []*selecting, path, of string, s, namespaces *policy.Selector) []*selecting {
	if s == nil || namespaces != nil {
		return asked
	}
	conditions := len(s.MatchLabels)
	for i := range s.MatchExpressions {
		conditions += 1 + len(s.MatchExpressions[i].Values)
	}
	if conditions == 0 || conditions > maxConditions {
		return asked
	}
	return append(asked, &selecting{path: path, of: of, selector: s, values: map[string]map[string]int{}})
}

func nobody(p *policy.Policy, asked []*selecting, entities iter.Seq[Entity]) []policy.FieldError {
	if len(asked) == 0 {
		return nil
	}
	open, looks := asked[:min(len(asked), mostSelectors)], 0
	for e := range entities {
		if p.Namespace != "" && e.Namespace != p.Namespace {
			continue
		}
		if looks += len(open); looks > mostLooks {
			return nil // too many entities to look at all
		}
		open = slices.DeleteFunc(open, func(s *selecting) bool {
			s.look(e.Labels)
			return s.matched > 0
		})
	}
	c := &checker{}
	for _, s := range open[:min(len(open), mostSought)] {
		c.errs = append(c.errs, s.fault())
	}
	return c.errs
}

// selecting is a selector and what it was asked about.
type selecting struct {
	path string
	// of says whose labels it selects by.
	of       string
	selector *policy.Selector
	matched  int
	// values counts the values of all labels of the entities that were looked at, up to maxValues
	// of a key.
	values map[string]map[string]int
}

// While somebody waits for an answer, so many selectors are tried, on so many entities together,
// and for so many names that do not exist it is sought what was meant; of one selector for so many
// keys.
const mostSelectors, mostLooks, mostSought, mostKeysSought = 200, 200_000, 20, 5

// maxConditions is how many labels, expressions and values a selector has at most that is tried:
// as many as a person writes, and not the hundred thousand that an object has room for.
const maxConditions = 100

// maxKeys and maxValues bound what is remembered of labels.
const maxKeys, maxValues = 1000, 200

func (s *selecting) look(labels map[string]string) {
	if matches(s.selector, labels) {
		s.matched++
	}
	if s.matched > 0 {
		return
	}
	for key, value := range labels {
		of := s.values[key]
		if of == nil {
			if len(s.values) >= maxKeys {
				continue
			}
			of = map[string]int{}
			s.values[key] = of
		}
		if _, known := of[value]; known || len(of) < maxValues {
			of[value]++
		}
	}
}

// fault says that the selector selects nothing, and what it may have meant.
func (s *selecting) fault() policy.FieldError {
	out := policy.FieldError{Field: s.path, Given: "a selector of nobody", Want: "labels that " + s.of + " has"}
	if len(s.values) == 0 {
		out.Want += "; there is none yet"
		return out
	}
	keys := slices.Sorted(maps.Keys(s.selector.MatchLabels))
	for _, key := range keys[:min(len(keys), mostKeysSought)] {
		value := s.selector.MatchLabels[key]
		of, known := s.values[key]
		switch _, has := of[value]; {
		case !known:
			out.Want += "; none has " + key + meant(key, slices.Collect(maps.Keys(s.values)))
		case !has:
			out.Want += fmt.Sprintf("; %s is never %q%s", key, value, meant(value, slices.Collect(maps.Keys(of))))
		}
	}
	for _, r := range s.selector.MatchExpressions[:min(len(s.selector.MatchExpressions), mostKeysSought)] {
		if _, known := s.values[r.Key]; !known && (r.Operator == "In" || r.Operator == "Exists") {
			out.Want += "; none has " + r.Key + meant(r.Key, slices.Collect(maps.Keys(s.values)))
		}
	}
	return out
}

// matches reports whether the labels are selected.
func matches(s *policy.Selector, labels map[string]string) bool {
	for key, value := range s.MatchLabels {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	for _, r := range s.MatchExpressions {
		value, ok := labels[r.Key]
		in := ok && slices.Contains(r.Values, value)
		if r.Operator == "In" && !in || r.Operator == "NotIn" && in || r.Operator == "Exists" && !ok || r.Operator == "DoesNotExist" && ok {
			return false
		}
	}
	return true
}

// listed is how many names are offered.
const listed = 5

// oneOf says what is wanted, with the names that there are: the likeliest first.
func oneOf(what, given string, known []string) string {
	if len(known) == 0 {
		return what + "; there is none"
	}
	near := byDistance(given, known)
	text := what + ", one of " + strings.Join(near[:min(len(near), listed)], ", ")
	if more := len(near) - listed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Meant says what may have been meant by a name that is not known, or what there is; nothing if
// that is too much to tell.
func Meant(given string, known []string) string { return meant(given, known) }

// meant offers what may have been meant, or what there is.
func meant(given string, known []string) string {
	near := byDistance(given, known)
	if len(near) == 0 {
		return ""
	}
	if distance(fold(given), fold(near[0])) <= max(2, len(given)/4) || tail(given) == tail(near[0]) {
		return "; did you mean " + near[0] + "?"
	}
	if len(near) > listed {
		return ""
	}
	return ": there is " + strings.Join(near, ", ")
}

// byDistance sorts names by how far they are from what was given.
func byDistance(given string, known []string) []string {
	type far struct {
		name string
		by   int
	}
	all := make([]far, len(known))
	for i, name := range known {
		by := distance(fold(given), fold(name))
		if tail(given) == tail(name) {
			by = 0
		}
		all[i] = far{name, by}
	}
	slices.SortFunc(all, func(a, b far) int { return cmp.Or(cmp.Compare(a.by, b.by), cmp.Compare(a.name, b.name)) })
	out := make([]string, len(all))
	for i := range all {
		out[i] = all[i].name
	}
	return out
}

// fold makes names that people take for the same alike.
func fold(s string) string {
	if len(s) > 64 {
		s = s[:64]
	}
	return strings.ToLower(s)
}

// tail is the name of a label without what tells labels apart: role in nephe.antrea.io/tag-role.
func tail(key string) string {
	if i := strings.LastIndexByte(key, '/'); i >= 0 {
		key = key[i+1:]
	}
	return fold(strings.TrimPrefix(strings.TrimPrefix(key, "user-"), "tag-"))
}

// distance is how many letters are to be put in, left out or replaced to turn one text into the
// other; two that changed places count once.
func distance(a, b string) int {
	before, last, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			other := 1
			if a[i] == b[j] {
				other = 0
			}
			next[j+1] = min(last[j]+other, last[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}

// eachAppliedTo calls f for every entry of appliedTo, in rules too.
func eachAppliedTo(p *policy.Policy, f func(path string, a *policy.AppliedTo)) {
	for i := range p.AppliedTo {
		f(at("spec.appliedTo", i), &p.AppliedTo[i])
	}
	eachRule(p, func(path string, r *policy.Rule) {
		for i := range r.AppliedTo {
			f(at(path+".appliedTo", i), &r.AppliedTo[i])
		}
	})
}
