package cli

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/nephele-io/nephele/internal/history"
)

// HistoryFlags bound the history of policies that a controller keeps.
type HistoryFlags struct {
	bounds    history.Bounds
	mebibytes int64
}

// Register adds the flags to a command.
func (f *HistoryFlags) Register(flags *pflag.FlagSet) {
	d := history.DefaultBounds()
	flags.IntVar(&f.bounds.PerObject, "history-versions", d.PerObject, "how many versions of each policy, group and tier are kept for \"nephele history\"; 0 for none")
	flags.IntVar(&f.bounds.Total, "history-total", d.Total, "how many versions are kept of all together; the oldest of the namespace with the most go first")
	flags.Int64Var(&f.mebibytes, "history-megabytes", d.Bytes>>20, "how much all of them may take, in MiB")
}

// Bounds returns what the flags say.
func (f *HistoryFlags) Bounds() (history.Bounds, error) {
	if f.bounds.PerObject < 0 || f.bounds.Total < 1 || f.mebibytes < 1 || f.mebibytes > 1<<20 {
		return history.Bounds{}, fmt.Errorf("--history-versions %d, --history-total %d, --history-megabytes %d: want 0 or more, 1 or more, and 1 to %d",
			f.bounds.PerObject, f.bounds.Total, f.mebibytes, 1<<20)
	}
	f.bounds.Bytes = f.mebibytes << 20
	return f.bounds, nil
}
