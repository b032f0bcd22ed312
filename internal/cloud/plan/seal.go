package plan

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// The record of former groups says what an interface is given back. Whoever may write tags could write one, so records are signed: the tag
// cloud.TagSignature proves that the groups were recorded by somebody who has the key, for this interface. What is not proven is not believed:
// nothing is ever given back by it, and nothing else is derived from it. See docs/decisions/0013-signed-records.md.

const (
	// sealPrefix begins a signature.
	sealPrefix = "v1 "
	// proofLength is the length of what proves one record, in characters of 6 bits. Nobody can try proofs but by writing them where we see it.
	proofLength = 7
	// sealed is how many interfaces one call may tag: as many proofs as one value of a tag has room for. All of them get the same value.
	sealed = (formerTagSize - len(sealPrefix)) / proofLength
)

// SealKeySize is the length of a key.
const SealKeySize = sha256.Size

// Seal signs the records of one account, and checks them. It is a value; nil signs nothing and believes everything.
type Seal struct {
	// Lenient believes records of interfaces under control that are not signed with the key: they may be older than it, and are signed now.
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

// sign returns the value of the tag for interfaces that are tagged by one call, at most as many as sealed.
func (s *Seal) sign(region string, nics []*iface) string {
	var b strings.Builder
	b.WriteString(sealPrefix)
	for _, n := range nics {
		b.WriteString(s.proof(region, n.ID, n.former))
	}
	return b.String()
}

// proves reports whether the tags of an interface prove what they record.
func (s *Seal) proves(region string, n *cloud.Interface) (found bool) {
	proofs, ok := strings.CutPrefix(n.Tags[cloud.TagSignature], sealPrefix)
	if !ok || len(proofs) > sealed*proofLength {
		return false
	}
	want := []byte(s.proof(region, n.ID, formerFromTags(n.Tags)))
	for is := range slices.Chunk([]byte(proofs), proofLength) {
		found = hmac.Equal(is, want) || found
	}
	return found
}

// Believes reports whether what an interface that we hold records as its former groups is believed.
func (s *Seal) Believes(region string, n *cloud.Interface) bool {
	return s == nil || formerFromTags(n.Tags) != nil && (s.Lenient || s.proves(region, n))
}

// Records counts the records of interfaces that hold groups of ours, by how far they are proven.
type Records struct {
	// Signed are proven; Unsigned are believed without being proven.
	Signed, Unsigned int
	// Unproven are those that are not believed.
	Unproven []Unproven
}

// Unproven is an interface that we hold without knowing what it had before.
type Unproven struct {
	Region, Interface string
	// VM is the zero value if it belongs to no selected VM.
	VM      VMRef
	Message string
}

// judge decides whether what the tags of an interface say of its former groups is believed. What is not takes no part in anything; what it
// had is not known then, unless somebody who may has said so.
func (s *region) judge(n *iface) {
	seal := s.in.Seal
	if seal == nil || n.alien != "" || n.forged {
		return
	}
	proven := n.recorded != nil && seal.proves(s.snap.Region, n.Interface)
	switch {
	case len(n.ours) == 0:
		// What it holds is what it had, unless we have left it so ourselves.
		if n.recorded != nil && !proven {
			n.recorded, n.forged = nil, true
		}
	case n.recorded != nil && (proven || seal.Lenient):
		n.unsigned = !proven
	case len(n.foreign) > 0:
		// It has groups of its own beside ours, as those have that rules only refer to. They need no record.
		n.recorded, n.forged = nil, n.recorded != nil
	default:
		groups, problem := s.confirmed(n)
		if len(groups) > 0 {
			n.recorded, n.forged = groups, true
			return
		}
		n.unproven = unprovenMessage(n, problem)
		n.recorded = []string{}
	}
}

// toSign marks tags of an interface as to be signed: by a value that is not there now.
func (s *regional) toSign(n *nic, tags map[string]string) {
	if s.in.Seal == nil {
		return
	}
	tags[cloud.TagSignature] = ""
	if is, ok := n.Tags[cloud.TagSignature]; ok && is == "" {
		tags[cloud.TagSignature] = sealPrefix
	}
}

// sign signs the records of the interfaces that an operation tags, if it is marked by toSign.
func (s *regional) sign(op *cloud.Op, byID map[string]*nic) {
	if _, marked := op.Tags[cloud.TagSignature]; !marked || op.Kind != cloud.OpTag || s.in.Seal == nil {
		return
	}
	var nics []*iface
	for _, id := range op.Subjects() {
		nics = append(nics, byID[id].iface)
	}
	op.Tags = maps.Clone(op.Tags)
	op.Tags[cloud.TagSignature] = s.in.Seal.sign(s.snap.Region, nics)
}

// signatureSize is how many tags more an interface has when its record is signed.
func (s *region) signatureSize(n *iface) int {
	if _, signed := n.Tags[cloud.TagSignature]; s.in.Seal == nil || signed {
		return 0
	}
	return 1
}

// recordSize is how many tags more an interface has when its groups are recorded.
func (s *region) recordSize(n *iface) int { return len(formerTags(n.former)) + s.signatureSize(n) }

// load is how many interfaces are tagged by one call; 0 if any number is good.
func (s *regional) load() int {
	if s.in.Seal != nil {
		return sealed
	}
	return 0
}

// unproven reports whether nothing but a record that is not believed makes the interfaces of the class stay as they are.
func (c *class) unproven() bool {
	return !slices.ContainsFunc(c.nics, func(n *nic) bool { return n.unproven == "" })
}

func unprovenMessage(n *iface, problem string) string {
	what := "its record of former groups, the tag " + cloud.TagFormer + ", is not signed by this cluster"
	if n.recorded == nil {
		what = "its record of former groups, the tag " + cloud.TagFormer + ", is gone"
	}
	what += "; so it stays under control as it is, until the annotation " + v1alpha1.AnnotationFormerGroups + " of the account says what is to be given back: " +
		n.ID + "=GROUP,GROUP"
	if problem != "" {
		what += " (" + problem + ")"
	}
	return what
}

// records counts the records of the region.
func (s *reporter) records(out *Records) {
	if s.in.Seal == nil {
		return
	}
	for _, n := range s.nics {
		switch {
		case n.unproven != "":
			u := Unproven{Region: s.snap.Region, Interface: n.ID, Message: n.unproven}
			if n.vm != nil {
				u.VM = n.vm.ref
			}
			out.Unproven = append(out.Unproven, u)
		case len(n.ours) == 0 || n.recorded == nil:
		case n.unsigned, n.forged:
			out.Unsigned++
		default:
			out.Signed++
		}
	}
}
