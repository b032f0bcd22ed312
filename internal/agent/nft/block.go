package nft

import (
	"encoding/binary"
	"slices"
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
	chain    *Chain
	key      *PartKey
	ports    *Part
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
func (l *lane) block(segments []*segment) Rule {
	name := segments[0].name + "-block"
	b := l.blocks[name]
	if b == nil || !slices.Equal(b.segments, segments) {
		b = &block{segments: slices.Clone(segments), chain: &Chain{Rules: make([]Rule, len(segments))}, key: &PartKey{BlockPorts, idOf("block", name)}, ports: &Part{Of: name}}
		var keys []string
		for i, s := range segments {
			b.chain.Rules[i] = Rule{Action: Jump, Target: s.name}
			keys = append(keys, s.opens...)
		}
		b.ports.Keys = KeysOf(keys)
		l.blocks[name] = b
	}
	b.run = l.run
	l.program.Chains[name] = b.chain
	l.parts.put(*b.key, b.ports)
	return Rule{Matches: []Match{{Kind: MatchPortOf, Of: b.key}}, Action: Jump, Target: name}
}

// releaseBlocks forgets the blocks that are not in the program.
func (w *work) releaseBlocks() {
	for name, b := range w.blocks {
		if b.run != w.run {
			w.parts.put(*b.key, nil)
			delete(w.blocks, name)
		}
	}
}

// opens are the protocols and ports that rules are about, sorted; nil if one of them is not about a
// protocol and a few ports.
func opens(rules []Rule) []string {
	var out []string
	for i := range rules {
		var protocol, port *Match
		for j := range rules[i].Matches {
			switch m := &rules[i].Matches[j]; m.Kind {
			case MatchProtocol:
				protocol = m
			case MatchPort:
				port = m
			}
		}
		if protocol == nil || port == nil || len(out)+int(port.Hi-port.Lo) >= mostOpens {
			return nil
		}
		for n := int(port.Lo); n <= int(port.Hi); n++ {
			out = append(out, blockKey(uint8(protocol.Lo), uint16(n)))
		}
	}
	slices.Sort(out)
	return exact(slices.Compact(out))
}

// blockKey is a protocol and port as BlockPorts has them: each filled up to four bytes.
func blockKey(protocol uint8, port uint16) string {
	key := [8]byte{0: protocol}
	binary.BigEndian.PutUint16(key[4:], port)
	return string(key[:])
}
