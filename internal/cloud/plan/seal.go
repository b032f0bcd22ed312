package plan

import (
	"maps"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/record"
)

// toSign marks tags of an interface as to be signed: by a value that is not there now.
func (s *regional) toSign(n *guard.NIC, tags map[string]string) {
	if s.account.In.Seal == nil {
		return
	}
	tags[cloud.TagSignature] = ""
	if is, ok := n.Tags[cloud.TagSignature]; ok && is == "" {
		tags[cloud.TagSignature] = record.SealPrefix
	}
}

// sign signs the records of the interfaces that an operation tags, if it is marked by toSign.
func (e *emitter) sign(op *cloud.Op) {
	if _, marked := op.Tags[cloud.TagSignature]; !marked || op.Kind != cloud.OpTag || e.r.account.In.Seal == nil {
		return
	}
	var entries []record.Entry
	for _, id := range op.Subjects() {
		entries = append(entries, record.Entry{Interface: id, Groups: e.r.byID[id].Former})
	}
	op.Tags = maps.Clone(op.Tags)
	op.Tags[cloud.TagSignature] = e.r.account.In.Seal.Sign(e.r.region.Snap.Region, entries)
}

// load is how many interfaces are tagged by one call; 0 if any number is good.
func (s *regional) load() int {
	if s.account.In.Seal != nil {
		return record.Sealed
	}
	return 0
}
