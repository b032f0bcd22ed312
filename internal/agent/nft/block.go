package nft

import (
	"slices"

	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// A new connection would pass by the rules of every policy. Segments that follow one another and
// are about a few ports each are therefore a block, which is entered by packets with one of these
// ports only. The order of rules stays, and rules of other kinds stay outside of blocks.
const (
	// leastBlock is from how many segments on that is worth one more rule. Before that no other
	// block begins.
	leastBlock = 8
	// mostInBlock bounds a block. Mostly it ends before: the name of a segment says whether a block
	// begins with it, so that a policy that comes or goes changes one block and not all behind it.
	mostInBlock = 64
	// oneIn is how many segments have one with which a block begins.
	oneIn = 32
	// mostOpens bounds the ports of one segment in a block.
	mostOpens = 64
)

// block is a chain of segments.
type block struct {
	segments []*segment
	chain    *ruleset.Chain
	key      *ruleset.PartKey
	ports    *ruleset.Part
	// run is the last one that had it in its program.
	run uint64
}

// beginsBlock reports whether a block begins with the segment that has an ID.
func beginsBlock(id [32]byte) bool { return id[31]%oneIn == 0 }

// blockLength is how many segments can be one block, from the first on; none if that is about too
// much.
func blockLength(segments []*segment) int {
	for i, s := range segments {
		if s.opens == nil || i >= leastBlock && s.first || i == mostInBlock {
			return i
		}
	}
	return len(segments)
}

// block makes a block of segments, or takes that of the last run, and returns the rule that leads
// to it.
func (l *lane) block(segments []*segment) ruleset.Rule {
	name := segments[0].name + "-block"
	b := l.work.blocks[name]
	if b == nil || !slices.Equal(b.segments, segments) {
		b = &block{segments: slices.Clone(segments), chain: &ruleset.Chain{Rules: make([]ruleset.Rule, len(segments))},
			key: &ruleset.PartKey{Set: ruleset.BlockPorts, ID: ruleset.IDOf("block", name)}, ports: &ruleset.Part{Of: name}}
		var keys []string
		for i, s := range segments {
			b.chain.Rules[i] = ruleset.Rule{Action: ruleset.Jump, Target: s.name}
			keys = append(keys, s.opens...)
		}
		b.ports.Keys = ruleset.KeysOf(keys)
		l.work.blocks[name] = b
	}
	b.run = l.work.run
	l.work.program.Chains[name] = b.chain
	l.work.parts.Put(*b.key, b.ports)
	return ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchPortOf, Of: b.key}}, Action: ruleset.Jump, Target: name}
}

// releaseBlocks forgets the blocks that are not in the program.
func (w *work) releaseBlocks() {
	for name, b := range w.blocks {
		if b.run != w.run {
			w.parts.Put(*b.key, nil)
			delete(w.blocks, name)
		}
	}
}

// opens are the protocols and ports that rules are about, sorted; nil if one of them is not about a
// protocol and a few ports.
func opens(rules []ruleset.Rule) []string {
	var out []string
	for i := range rules {
		var protocol, port *ruleset.Match
		for j := range rules[i].Matches {
			switch m := &rules[i].Matches[j]; m.Kind {
			case ruleset.MatchProtocol:
				protocol = m
			case ruleset.MatchPort:
				port = m
			}
		}
		if protocol == nil || port == nil || len(out)+int(port.Hi-port.Lo) >= mostOpens {
			return nil
		}
		for n := int(port.Lo); n <= int(port.Hi); n++ {
			out = append(out, ruleset.BlockKey(uint8(protocol.Lo), uint16(n)))
		}
	}
	slices.Sort(out)
	return exact(slices.Compact(out))
}
