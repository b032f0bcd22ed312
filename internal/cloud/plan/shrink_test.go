package plan_test

import (
	"encoding/json"
	"slices"
)

// shrink removes parts of the estate as long as it keeps failing, in at most so many tries.
func shrink(e estate, tries int, fails func(*estate) bool) estate {
	for changed := true; changed; {
		changed = false
		for _, cut := range cuts(&e) {
			smaller := e.clone()
			cut(&smaller)
			if tries--; tries < 0 {
				return e
			}
			if fails(&smaller) {
				e, changed = smaller, true
				break
			}
		}
	}
	return e
}

func (e *estate) clone() estate {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	var out estate
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out
}

// cuts lists the ways to make an estate smaller, the big ones first.
func cuts(e *estate) []func(*estate) {
	var out []func(*estate)
	for i := range e.History {
		if len(e.History) > 1 {
			out = append(out, func(e *estate) { e.History = slices.Delete(e.History, i, i+1) })
		}
	}
	for i := range e.NICs {
		out = append(out, func(e *estate) { e.NICs = slices.Delete(e.NICs, i, i+1) })
	}
	for h := range e.History {
		for i := range e.History[h].Policies {
			out = append(out, func(e *estate) { s := &e.History[h]; s.Policies = slices.Delete(s.Policies, i, i+1) })
			for k := range e.History[h].Policies[i].Rules {
				out = append(out, ruleCuts(h, i, k, &e.History[h].Policies[i].Rules[k])...)
			}
		}
		for i, members := range e.History[h].Address {
			for k := range members {
				out = append(out, func(e *estate) { s := e.History[h].Address; s[i] = slices.Delete(s[i], k, k+1) })
			}
		}
		for i, members := range e.History[h].Applied {
			for k := range members {
				out = append(out, func(e *estate) { s := e.History[h].Applied; s[i] = slices.Delete(s[i], k, k+1) })
			}
		}
	}
	for i, g := range e.Groups {
		for k := range g.Rules {
			out = append(out, func(e *estate) { e.Groups[i].Rules = slices.Delete(e.Groups[i].Rules, k, k+1) })
		}
	}
	for i, n := range e.NICs {
		for k := range n.Groups {
			if len(n.Groups) > 1 {
				out = append(out, func(e *estate) { e.NICs[i].Groups = slices.Delete(e.NICs[i].Groups, k, k+1) })
			}
		}
		for k := range n.IPs {
			if len(n.IPs) > 1 {
				out = append(out, func(e *estate) { e.NICs[i].IPs = slices.Delete(e.NICs[i].IPs, k, k+1) })
			}
		}
		if n.Public != "" {
			out = append(out, func(e *estate) { e.NICs[i].Public = "" })
		}
	}
	for i := range e.Peerings {
		out = append(out, func(e *estate) { e.Peerings = slices.Delete(e.Peerings, i, i+1) })
	}
	return out
}

func ruleCuts(h, i, k int, r *ruleSpec) []func(*estate) {
	at := func(e *estate) *ruleSpec { return &e.History[h].Policies[i].Rules[k] }
	out := []func(*estate){func(e *estate) {
		p := &e.History[h].Policies[i]
		p.Rules = slices.Delete(p.Rules, k, k+1)
	}}
	for j := range r.Blocks {
		out = append(out, func(e *estate) { at(e).Blocks = slices.Delete(at(e).Blocks, j, j+1) })
	}
	for j := range r.Address {
		out = append(out, func(e *estate) { at(e).Address = slices.Delete(at(e).Address, j, j+1) })
	}
	for j := range r.Services {
		out = append(out, func(e *estate) { at(e).Services = slices.Delete(at(e).Services, j, j+1) })
	}
	return out
}
