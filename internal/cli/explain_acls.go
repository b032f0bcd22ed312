package cli

import (
	"context"
	"fmt"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/explain"
)

// readACLs reads the network ACLs of an account. They need a right of their own that nothing else
// needs: what cannot be read is noted.
func (o *observedAccount) readACLs(ctx context.Context) {
	reader, able := o.provider.(cloud.ACLReader)
	if !able {
		return
	}
	for _, r := range o.regions {
		acls, err := reader.NetworkACLs(ctx, r.Snapshot.Scope)
		if err != nil {
			o.notes = append(o.notes, plannedNote{Region: r.Snapshot.Region, Message: "network ACLs are not read, and one may stop a packet that is allowed here: " + err.Error()})
			continue
		}
		o.acls = append(o.acls, acls...)
	}
}

// aclText says which network ACL stops a packet.
func aclText(s *explain.ACLStop) string {
	entry, side, what := fmt.Sprintf("entry %d", s.Entry), "into", "it"
	if s.Entry == 0 {
		entry = "the end"
	}
	if s.Egress {
		side = "out of"
	}
	if s.Answer {
		what = "the answer to it"
	}
	return fmt.Sprintf("%s of network ACL %s does not let %s %s subnet %s, whatever policies and security groups say", entry, s.ACL, what, side, s.Subnet)
}
