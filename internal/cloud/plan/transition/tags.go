package transition

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// defaultBatch is how many objects one call tags. Clouds take more, but tags are to be written not
// long before interfaces are edited and removed not long after.
const defaultBatch = 50

// settle writes what is to be remembered: on interfaces that are where they shall be, and, but for
// some networks, on groups and networks.
func (w *worklist) settle(left map[string]bool) {
	var there []*cloud.Interface
	for i := range w.survey.From.Interfaces {
		n := &w.survey.From.Interfaces[i]
		if k := w.survey.cohortOf[n.ID]; slices.Equal(k.at, k.to) {
			there = append(there, n)
		}
	}
	mark := func(key string) bool { return key == w.survey.Mark }
	kinds := []cloud.OpKind{cloud.OpTag, cloud.OpUntag}
	for _, kind := range kinds {
		w.script.next()
		w.tags.tagInterfaces(kind, there)
		w.tags.tagGroups(kind, func(g *cloud.Group) bool { return left[g.NetworkID] })
		w.tags.tagNetworks(kind, func(key string) bool { return !mark(key) }, left)
	}
	w.script.next()
	for _, kind := range kinds {
		w.tags.tagNetworks(kind, mark, left)
	}
}

// tagger writes and removes tags. It knows the tags of objects as the steps so far leave them.
type tagger struct {
	change  *Change
	script  *script
	written map[string]map[string]string
	changed []keyValue // of the last call of changeTags
}

// tagged is one object whose tags change.
type tagged struct {
	id, network string
	service     cloud.ServiceKind // of an interface; a call tags interfaces of one kind only
	is, want    map[string]string
}

func (t *tagger) tagInterfaces(kind cloud.OpKind, interfaces []*cloud.Interface) {
	if len(interfaces) == 0 {
		return
	}
	out := make([]tagged, 0, len(interfaces))
	for _, n := range interfaces {
		if to := t.change.To.Interface(n.ID); to != nil && !t.done(n.ID, n.Tags, to.Tags) {
			out = append(out, tagged{n.ID, n.NetworkID, n.Service, n.Tags, to.Tags})
		}
	}
	t.tag(kind, out)
}

// tagGroups writes the tags of groups, but for some.
func (t *tagger) tagGroups(kind cloud.OpKind, but func(*cloud.Group) bool) {
	var out []tagged
	for i := range t.change.From.Groups {
		g := &t.change.From.Groups[i]
		if to := t.change.To.Group(g.ID); to != nil && !but(g) {
			out = append(out, tagged{g.ID, g.NetworkID, "", g.Tags, to.Tags})
		}
	}
	t.tag(kind, out)
}

// unmark removes the marks that will be others, if there is anything to do before.
func (w *worklist) unmark() {
	var out []tagged
	left := w.unfinished()
	for i := range w.survey.From.Networks {
		is := &w.survey.From.Networks[i]
		if mark, ok := is.Tags[w.survey.Mark]; ok && left[is.ID] && mark != w.survey.To.Networks[i].Tags[w.survey.Mark] {
			want := maps.Clone(w.tags.present(is.ID, is.Tags))
			delete(want, w.survey.Mark)
			out = append(out, tagged{is.ID, is.ID, "", is.Tags, want})
		}
	}
	w.tags.tag(cloud.OpUntag, out)
}

// tagNetworks writes the tags of networks with some keys, but for some networks.
func (t *tagger) tagNetworks(kind cloud.OpKind, which func(key string) bool, left map[string]bool) {
	var out []tagged
	for i := range t.change.From.Networks {
		is := &t.change.From.Networks[i]
		if left[is.ID] {
			continue
		}
		want := maps.Clone(t.present(is.ID, is.Tags))
		maps.DeleteFunc(want, func(k, _ string) bool { return which(k) })
		for k, v := range t.change.To.Networks[i].Tags {
			if which(k) {
				want[k] = v
			}
		}
		out = append(out, tagged{is.ID, is.ID, "", is.Tags, want})
	}
	t.tag(kind, out)
}

// present are the tags of an object as the steps so far leave them.
func (t *tagger) present(id string, observed map[string]string) map[string]string {
	if _, known := t.written[id]; !known {
		t.written[id] = maps.Clone(observed)
		if observed == nil {
			t.written[id] = map[string]string{}
		}
	}
	return t.written[id]
}

// done reports whether an object has the tags that it shall have, as most do.
func (t *tagger) done(id string, observed, want map[string]string) bool {
	is, changed := t.written[id]
	if !changed {
		is = observed
	}
	return maps.Equal(is, want)
}

// retag is what one call does to the tags of many objects.
type retag struct {
	network string
	service cloud.ServiceKind
	tags    string
}

// keyValue is one tag.
type keyValue struct{ key, value string }

// listed writes tags into a string that no other ones make.
func listed(tags []keyValue) string {
	var b []byte
	for _, t := range tags {
		b = strconv.AppendQuote(b, t.key)
		b = strconv.AppendQuote(b, t.value)
	}
	return string(b)
}

// changeTags sets or removes tags, as far as they are not as they shall be. It returns those that
// it sets, or removes, sorted by key.
func (t *tagger) changeTags(kind cloud.OpKind, is, want map[string]string) []keyValue {
	out := t.changed[:0]
	if kind == cloud.OpTag {
		for k, v := range want {
			if old, ok := is[k]; !ok || old != v {
				out = append(out, keyValue{k, v})
				is[k] = v
			}
		}
	}
	for k, v := range is {
		switch _, stays := want[k]; {
		case stays:
		case kind == cloud.OpUntag:
			out = append(out, keyValue{k, v})
			delete(is, k)
		case len(out) > 0 && v != "" && t.change.Joint != "" && strings.HasPrefix(k, t.change.Joint):
			out = append(out, keyValue{k, ""})
			is[k] = ""
		}
	}
	slices.SortFunc(out, func(a, b keyValue) int { return strings.Compare(a.key, b.key) })
	t.changed = out
	return out
}

// tag sets or removes tags, many of the same by one call; what was done already is not done again.
func (t *tagger) tag(kind cloud.OpKind, objects []tagged) {
	at := map[retag]int{}
	for _, o := range objects {
		if t.done(o.id, o.is, o.want) {
			continue
		}
		changed := t.changeTags(kind, t.present(o.id, o.is), o.want)
		if len(changed) == 0 {
			continue
		}
		key := retag{o.network, o.service, listed(changed)}
		if i, ok := at[key]; ok && len(t.script.steps[i].Op.Others)+1 < t.change.Batch {
			t.script.steps[i].Op.Others = append(t.script.steps[i].Op.Others, o.id)
			continue
		}
		tags := make(map[string]string, len(changed))
		for _, c := range changed {
			tags[c.key] = c.value
		}
		at[key] = len(t.script.steps)
		t.script.emit(o.network, cloud.Op{Kind: kind, Target: o.id, Tags: tags})
	}
}
