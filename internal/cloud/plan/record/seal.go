package record

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// The record of former groups says which groups an interface gets back at its release. Any user who
// may write tags could write one, so records are signed: the tag cloud.TagSignature proves that a
// holder of the key recorded the groups for this interface. An unproven record is not trusted: no
// groups are given back by it, and nothing else is derived from it. See
// docs/decisions/0013-signed-records.md.

const (
	// SealPrefix begins a signature.
	SealPrefix = "v1 "
	// proofLength is the length of what proves one record, in characters of 6 bits. Nobody can try
	// proofs but by writing them where we see it.
	proofLength = 7
	// Sealed is how many interfaces one call may tag: as many proofs as one value of a tag has room
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

// String hides the key when a value that holds a seal is printed.
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

// Entry is the record of one interface: its former groups, sorted.
type Entry struct {
	Interface string
	Groups    []string
}

// Sign returns the value of the tag for interfaces that are tagged by one call, at most as many as
// Sealed.
func (s *Seal) Sign(region string, entries []Entry) string {
	var b strings.Builder
	b.WriteString(SealPrefix)
	for _, e := range entries {
		b.WriteString(s.proof(s.keys[0], region, e.Interface, e.Groups))
	}
	return b.String()
}

// Proves reports whether the tags of an interface prove what they record. Without a seal nothing is
// proven.
func (s *Seal) Proves(region string, n *cloud.Interface) bool {
	proven, _ := s.Check(region, n)
	return proven
}

// Check is Proves, and says whether it is with the current key.
func (s *Seal) Check(region string, n *cloud.Interface) (proven, current bool) {
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
