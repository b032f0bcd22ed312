package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// alike are remarks that say the same of several objects.
type alike struct {
	policy, region, message string
	// noun is what the objects are.
	noun string
	// single is the message as it is of one object only.
	single  string
	objects []string
}

// grouped puts remarks together that say the same, in the order of the first of each. The message
// may name the object and what belongs to it, such as the interfaces of a VM.
type grouped struct {
	order []string
	by    map[string]*alike
}

func (g *grouped) add(verb string, x alike, object string) {
	key := strings.Join([]string{verb, x.policy, x.region, x.noun, x.message}, "|")
	if g.by == nil {
		g.by = map[string]*alike{}
	}
	at := g.by[key]
	if at == nil {
		at = &x
		g.by[key] = at
		g.order = append(g.order, key)
	}
	if object != "" && !slices.Contains(at.objects, object) {
		at.objects = append(at.objects, object)
	}
}

// each calls print with every group, in order.
func (g *grouped) each(all bool, print func(verb string, x *alike, on string)) {
	for _, key := range g.order {
		x := g.by[key]
		verb, _, _ := strings.Cut(key, "|")
		if len(x.objects) <= 1 {
			x.message = x.single
		}
		slices.Sort(x.objects)
		on := cloud.Listed(x.objects, all)
		if n := len(x.objects); n > 1 {
			on = fmt.Sprintf("%s (%s)", cloud.Counted(n, x.noun), on)
		}
		print(verb, x, on)
	}
}

// refusals prints what cannot be done, equal reasons together.
func (t *planText) refusals(refusals []analysis.PlanRefusal) {
	var g grouped
	for _, x := range refusals {
		_, id, _ := strings.Cut(x.VM, "/")
		object := cmp.Or(x.VMName, id)
		place := strings.TrimSpace(x.Region + " " + x.Network)
		if object != "" {
			place = x.Region
		}
		g.add("refused", alike{policy: x.Policy, region: place, noun: "VM", message: withoutInterface(x.Message), single: x.Message}, object)
	}
	g.each(t.all, func(verb string, x *alike, on string) {
		t.line(
			"  ! %s: %s: %s",
			verb,
			strings.Join(filled(x.policy, preposition("on", on, x.policy != ""), preposition("in", x.region, on != "" || x.policy != "")), " "),
			x.message,
		)
	})
}

// preposition puts a word before a text that follows another.
func preposition(word, text string, follows bool) string {
	if text == "" || !follows {
		return text
	}
	return word + " " + text
}

// filled are the texts that say something.
func filled(texts ...string) []string {
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}

// withoutInterface replaces the IDs of interfaces, which differ where nothing else does.
func withoutInterface(message string) string {
	words := strings.Split(message, " ")
	for i, w := range words {
		if strings.HasPrefix(w, "eni-") {
			words[i] = "eni-..." + strings.TrimLeft(strings.TrimPrefix(w, "eni-"), "0123456789abcdef")
		}
	}
	return strings.Join(words, " ")
}

// remarks prints what is to be said about objects, equal remarks together.
func (t *planText) remarks(sign string, notes []analysis.PlanNote) {
	var g grouped
	for _, n := range notes {
		object, noun := n.Object, "object"
		switch isVM := strings.HasPrefix(n.Object, "i-"); {
		case isVM:
			object, noun = cmp.Or(n.Name, n.Object), "VM"
		case n.Name != "":
			object += " (" + n.Name + ")"
		}
		g.add("", alike{policy: n.Policy, region: n.Region, noun: noun, message: n.Message, single: n.Message}, object)
	}
	g.each(t.all, func(_ string, x *alike, on string) {
		head := strings.Join(filled(x.policy, preposition("on", on, x.policy != ""), preposition("in", x.region, on != "" || x.policy != "")), " ")
		if head != "" {
			head += ": "
		}
		t.line("  %s %s%s", sign, head, x.message)
	})
}
