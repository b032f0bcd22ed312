package cli

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/nephele-io/nephele/internal/cloud/audit"
)

// AuditFlags say where the record of changes in clouds goes.
type AuditFlags struct {
	// File is empty for the log alone.
	File string
}

// Register adds the flags to a set. The flag's default is what File is.
func (a *AuditFlags) Register(f *pflag.FlagSet) {
	f.StringVar(&a.File, "audit-log", a.File, "file for the record of all calls that change something in a cloud; it is rotated. Empty for the log alone")
}

// openRecord opens the record of changes of this process.
func openRecord(clusterID string, o ControllerOptions) (*audit.Record, error) {
	run := make([]byte, 6)
	if _, err := rand.Read(run); err != nil {
		return nil, fmt.Errorf("name this process in the record of changes: %w", err)
	}
	return audit.Open(audit.Options{
		ClusterID: clusterID, File: o.Audit.File, Log: o.Log.WithName("audit"), Now: time.Now, Run: hex.EncodeToString(run), Metrics: o.metrics.audit,
	})
}

// closeRecord closes the record. Nothing is kept back in the process, so nothing is lost if that fails.
func closeRecord(r *audit.Record) { _ = r.Close() }
