package controller

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/nephele-io/nephele/internal/cloud/audit"
)

// openRecord opens the record of changes of this process.
func openRecord(clusterID string, proc *process) (*audit.Record, error) {
	run := make([]byte, 6)
	if _, err := rand.Read(run); err != nil {
		return nil, fmt.Errorf("name this process in the record of changes: %w", err)
	}
	return audit.Open(audit.Options{
		ClusterID: clusterID, File: proc.AuditLog, Log: proc.Log.WithName("audit"), Now: time.Now, Run: hex.EncodeToString(run), Metrics: proc.metrics.audit,
	})
}

// closeRecord closes the record. Nothing is kept back in the process, so nothing is lost if that
// fails.
func closeRecord(r *audit.Record) { _ = r.Close() }
