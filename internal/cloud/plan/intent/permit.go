package intent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// Decided is what the rules, which the profile identifies, make of what the former groups of the
// interface allow.
func (s *Region) Decided(n *NIC, rules []*Bound, profile string) [2]flow.Permit {
	key := n.Network.ID + "|" + profile
	if OpenUnder(rules) != [2]bool{} {
		key += "|" + strings.Join(n.Groups.Former, " ")
	}
	return s.decided.Get(key, func() (out [2]flow.Permit) {
		s.Account.Recall.Trim()
		for i, d := range flow.Directions() {
			out[i] = s.Account.Recall.Kept(s.Flatten(n, d, rules))
		}
		return out
	})
}

// meaningOf is what NativeMeaning is asked for.
type meaningOf struct {
	former string // the IDs of the groups
	open   [2]bool
}

// NativeMeaning identifies what former groups allow in the open directions. Groups with equal rules
// mean the same, so that interfaces with copies of one group need not be told apart.
func (s *Region) NativeMeaning(former []string, open [2]bool) string {
	return s.meanings.Get(meaningOf{strings.Join(former, " "), open}, func() string {
		var b strings.Builder
		for i, d := range flow.Directions() {
			if !open[i] {
				continue
			}
			for _, r := range cloud.RuleKeys(s.GroupRules(former, d)) {
				fmt.Fprintf(&b, "%s/%s;", r, r.Peer.GroupOwner)
			}
		}
		if b.Len() == 0 {
			return ""
		}
		return mark(b.String())
	})
}

// mark represents a text in the key of interfaces that are alike. It is long enough that no
// attacker finds two texts with the same mark, because the text comes from authors of groups.
func mark(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:markSize/2])
}

const markSize = 32 // digits, of 4 bits each

// ShortMark is the beginning of a mark, as it stood in the tags of groups before marks were that
// long. It identifies nothing.
func ShortMark(mark string) string { return mark[:min(len(mark), 12)] }

// Restorable returns the former groups of the interface that still exist, or else the default group
// of its network.
func (s *Region) Restorable(n *NIC) []string {
	var out, gone []string
	for _, id := range n.Groups.Former {
		if s.Groups[id] != nil {
			out = append(out, id)
		} else {
			gone = append(gone, id)
		}
	}
	if len(gone) > 0 {
		s.Note(n.ID, reason.Why(reason.FormerGone, gone...))
	}
	if len(out) == 0 {
		for i := range s.Snap.Groups {
			if g := &s.Snap.Groups[i]; g.Default && g.NetworkID == n.NetworkID {
				out = []string{g.ID}
				s.Note(n.ID, reason.Why(reason.FormerAllGone, g.ID))
			}
		}
	}
	return out
}

// ProfileOf identifies rules.
func ProfileOf(rules []*Bound) string {
	var b []byte
	for _, r := range rules {
		b = strconv.AppendInt(append(append(b, r.Policy.Ref.UID...), ' '), int64(r.ordinal), 10)
		if len(r.Named) > 0 {
			b = fmt.Append(b, r.services)
		}
		b = append(b, ';')
	}
	return string(b)
}
