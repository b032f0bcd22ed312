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
	// Renewing says that some records may still be signed with a former key.
	Renewing bool
	// KeyID names the key that it signs with.
	KeyID string

	keys  [][]byte
	owner []byte // what all records of the account have in common
}

// NewSeal returns the seal of an account of a cluster. It signs with the key and believes what
// former ones have signed, too, which is signed anew. All must be random and secret.
func NewSeal(key []byte, clusterID, account string, former ...[]byte) *Seal {
	s := &Seal{owner: join("former groups", clusterID, account)}
	for _, k := range append([][]byte{key}, former...) {
		s.keys = append(s.keys, slices.Clone(k))
	}
	return s
}

// Settled reports whether there is nothing to find out about what has signed the records.
func (s *Seal) Settled() bool { return s == nil || !s.Lenient && !s.Renewing }

// By is the ID of the key that has signed all records, as far as is known of a seal that is not
// lenient; empty if some former one may have signed some.
func (s *Seal) By() string {
	if s.Renewing {
		return ""
	}
	return s.KeyID
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

// proof proves the record of one interface with a key. groups are sorted.
func (s *Seal) proof(key []byte, region, id string, groups []string) string {
	h := hmac.New(sha256.New, key)
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
		b.WriteString(s.proof(s.keys[0], region, n.ID, n.Former))
	}
	return b.String()
}

// Proves reports whether the tags of an interface prove what they record. Without a seal nothing is
// proven.
func (s *Seal) Proves(region string, n *cloud.Interface) bool {
	proven, _ := s.proves(region, n)
	return proven
}

// proves is Proves, and says whether it is with the current key.
func (s *Seal) proves(region string, n *cloud.Interface) (proven, current bool) {
	if s == nil {
		return false, false
	}
	proofs, ok := strings.CutPrefix(n.Tags[cloud.TagSignature], SealPrefix)
	if !ok || len(proofs) > Sealed*proofLength {
		return false, false
	}
	for i, key := range s.keys {
		want := []byte(s.proof(key, region, n.ID, Former(n)))
		found := false
		for is := range slices.Chunk([]byte(proofs), proofLength) {
			found = hmac.Equal(is, want) || found
		}
		if found {
			return true, i == 0
		}
	}
	return false, false
}

// Believes reports whether what an interface that we hold records as its former groups is believed.
func (s *Seal) Believes(region string, n *cloud.Interface) bool {
	return s == nil || Former(n) != nil && (s.Lenient || s.Proves(region, n))
}

// readRecord finds out what the interface had before it was taken over. What its tags say and is
// not believed takes no part in anything; what it had is not known then, unless it is remembered,
// or somebody who may has said so.
func (s *Region) readRecord(n *NIC) {
	seal, held := s.Account.In.Seal, len(n.Ours) > 0
	n.Recorded = Former(n.Interface)
	proven, current := seal.proves(s.Snap.Region, n.Interface)
	believed := seal.Believes(s.Snap.Region, n.Interface) && (seal == nil || proven || held)
	known, remembered := s.remembered[n.ID]
	if remembered && held && n.Alien == nil && (!slices.Equal(known, n.Recorded) || known != nil && !believed) {
		n.Recorded, n.Forged = known, true
	}
	if proven || n.Forged && n.Recorded != nil {
		n.Unproven = nil // it is remembered, or was read before
	}
	switch {
	case n.Unproven != nil:
		n.Recorded = []string{}
	case n.Alien != nil || n.Forged:
	case believed:
		n.Unsigned, n.Outdated = seal != nil && !proven, proven && !current
	case !held || len(n.Foreign) > 0:
		// What it holds without ours is what it had, unless we have left it so ourselves. With
		// groups of its own beside ours, as those have that rules only refer to, it needs none.
		n.Recorded, n.Forged = nil, n.Recorded != nil
	default:
		s.confirm(n)
	}
	n.Former = n.Foreign
	if n.Recorded != nil && n.Alien == nil {
		n.Former = n.Recorded
	}
}

// confirm takes what somebody says who may say so for the record of an interface, which is not
// believed.
func (s *Region) confirm(n *NIC) {
	groups, problem := s.confirmed(n)
	switch {
	case len(groups) > 0:
		n.Recorded, n.Forged = groups, true
		return
	case n.Recorded == nil:
		n.Unproven = Why(RecordGone, n.ID).From(problem)
	default:
		n.Unproven = Why(RecordUnsigned, n.ID).From(problem)
	}
	n.Recorded = []string{}
}

// SignatureSize is how many tags more an interface has when its record is signed.
func (s *Region) SignatureSize(n *NIC) int {
	if _, signed := n.Tags[cloud.TagSignature]; s.Account.In.Seal == nil || signed {
		return 0
	}
	return 1
}

// RecordSize is how many tags more an interface has when its groups are recorded.
func (s *Region) RecordSize(n *NIC) int { return len(FormerTags(n.Former)) + s.SignatureSize(n) }
