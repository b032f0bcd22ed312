package intent

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// The record of former groups says what an interface is given back. Whoever may write tags could
// write one, so records are signed: the tag cloud.TagSignature proves that the groups were recorded
// by somebody who has the key, for this interface. What is not proven is not believed: nothing is
// ever given back by it, and nothing else is derived from it. See
// docs/decisions/0013-signed-records.md.

const (
	// sealPrefix begins a signature.
	SealPrefix = "v1 "
	// proofLength is the length of what proves one record, in characters of 6 bits. Nobody can try
	// proofs but by writing them where we see it.
	proofLength = 7
	// sealed is how many interfaces one call may tag: as many proofs as one value of a tag has room
	// for. All of them get the same value.
	Sealed = (formerTagSize - len(SealPrefix)) / proofLength
)

// SealKeySize is the length of a key.
const SealKeySize = sha256.Size

// Seal signs the records of one account, and checks them. It is a value; nil signs nothing and
// believes everything.
type Seal struct {
	// Lenient believes records of interfaces under control that are not signed with the key: they
	// may be older than it, and are signed now.
	Lenient bool

	key   []byte
	owner []byte // what all records of the account have in common
}

// NewSeal returns the seal of an account of a cluster. The key must be random and secret.
func NewSeal(key []byte, clusterID, account string) *Seal {
	return &Seal{key: slices.Clone(key), owner: join("former groups", clusterID, account)}
}

// String hides the key from whoever prints what holds a seal.
func (s *Seal) String() string {
	if s == nil {
		return "no seal"
	}
	return "a seal"
}

// join writes texts so that different ones never look alike.
func join(parts ...string) (out []byte) {
	for _, p := range parts {
		out = append(binary.AppendUvarint(out, uint64(len(p))), p...)
	}
	return out
}

// proof proves the record of one interface. groups are sorted.
func (s *Seal) proof(region, id string, groups []string) string {
	h := hmac.New(sha256.New, s.key)
	_, _ = h.Write(s.owner) // it takes everything
	_, _ = h.Write(join(region, id, strings.Join(groups, " ")))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))[:proofLength]
}

// Sign returns the value of the tag for interfaces that are tagged by one call, at most as many as
// sealed.
func (s *Seal) Sign(region string, nics []*NIC) string {
	var b strings.Builder
	b.WriteString(SealPrefix)
	for _, n := range nics {
		b.WriteString(s.proof(region, n.ID, n.Former))
	}
	return b.String()
}

// Proves reports whether the tags of an interface prove what they record. Without a seal nothing is
// proven.
func (s *Seal) Proves(region string, n *cloud.Interface) (found bool) {
	if s == nil {
		return false
	}
	proofs, ok := strings.CutPrefix(n.Tags[cloud.TagSignature], SealPrefix)
	if !ok || len(proofs) > Sealed*proofLength {
		return false
	}
	want := []byte(s.proof(region, n.ID, Former(n)))
	for is := range slices.Chunk([]byte(proofs), proofLength) {
		found = hmac.Equal(is, want) || found
	}
	return found
}

// Believes reports whether what an interface that we hold records as its former groups is believed.
func (s *Seal) Believes(region string, n *cloud.Interface) bool {
	return s == nil || Former(n) != nil && (s.Lenient || s.Proves(region, n))
}

// judge decides whether what the tags of an interface say of its former groups is believed. What is
// not takes no part in anything; what it had is not known then, unless somebody who may has said
// so.
func (s *Region) judge(n *NIC) {
	seal := s.In.Seal
	if seal == nil || n.Alien != nil || n.Forged {
		return
	}
	proven := n.Recorded != nil && seal.Proves(s.Snap.Region, n.Interface)
	switch {
	case len(n.Ours) == 0:
		// What it holds is what it had, unless we have left it so ourselves.
		if n.Recorded != nil && !proven {
			n.Recorded, n.Forged = nil, true
		}
	case n.Recorded != nil && (proven || seal.Lenient):
		n.Unsigned = !proven
	case len(n.Foreign) > 0:
		// It has groups of its own beside ours, as those have that rules only refer to. They need
		// no record.
		n.Recorded, n.Forged = nil, n.Recorded != nil
	default:
		groups, problem := s.confirmed(n)
		if len(groups) > 0 {
			n.Recorded, n.Forged = groups, true
			return
		}
		n.Unproven = unproven(n, problem)
		n.Recorded = []string{}
	}
}

// SignatureSize is how many tags more an interface has when its record is signed.
func (s *Region) SignatureSize(n *NIC) int {
	if _, signed := n.Tags[cloud.TagSignature]; s.In.Seal == nil || signed {
		return 0
	}
	return 1
}

// RecordSize is how many tags more an interface has when its groups are recorded.
func (s *Region) RecordSize(n *NIC) int { return len(formerParts(n.Former)) + s.SignatureSize(n) }

// unproven says why the record of an interface is not believed, and what is wrong with what an
// annotation says instead.
func unproven(n *NIC, problem *Reason) *Reason {
	if n.Recorded == nil {
		return Why(RecordGone, n.ID).From(problem)
	}
	return Why(RecordUnsigned, n.ID).From(problem)
}
