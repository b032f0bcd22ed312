// Package backupcmd holds the commands "nephele backup" and "nephele restore". They save the
// objects and keys of a cluster that an installation cannot make anew or, for the program with a
// control plane inside, its data directory.
//
// It owns flags, printing, and the list of what is saved of a cluster; internal/backup owns the
// form of the file. A restore changes nothing that exists: it refuses a place that is not empty,
// and after an interruption it goes on with the same file.
package backupcmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/backup"
	"github.com/nephele-io/nephele/internal/cli/terminal"
)

// Needs are what the commands are given.
type Needs struct {
	Client  func(*rest.Config) (client.Client, error)
	Version string
	// Local, if set, backs up data directories of "nephele up".
	Local *Local
}

// Local backs up data directories.
type Local struct {
	// Data is the format of a directory that this program knows.
	Data int
	// Backup writes what is in a directory into an empty folder; Restore makes a folder with that a
	// directory.
	Backup  func(ctx context.Context, dataDir, into string) error
	Restore func(staged string) error
}

// copies is what both commands say at their end.
const copies = `If the original still runs, two controllers have one identity: the copy finds the mark of the other one on the networks
of each account, and changes nothing there until somebody says "nephele take-over". Else it goes on after a minute.`

// Commands are "backup" and "restore".
func Commands(n Needs) []*cobra.Command { return []*cobra.Command{n.backup(), n.restore()} }

func (n Needs) backup() *cobra.Command {
	var cluster terminal.Cluster
	var to, dataDir string
	c := &cobra.Command{
		Use:   "backup --to FILE",
		Short: "Write into one file what an installation cannot make anew",
		Long: `Write into one file what an installation cannot make anew: of a cluster the keys that sign the records of VMs and the certificates
of hosts, accounts, selectors, policies, tiers, groups, hosts and the labels of their namespaces; with --data-dir, in the build that has
"nephele up", the database and all keys of that directory, while it runs or not.

The file has keys in it: it is readable by you only, and its holder is the administrator of what is restored from it. Logs, flows, the
record of changes and what is imported from clouds are not in it, and of a cluster no Secrets of accounts and nothing that belongs to an
object of another kind: both are named at the end.`,
		Example: `  nephele backup --to nephele-backup.tar.gz`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return errors.New("--to: name the file to write")
			}
			staged, err := os.MkdirTemp(filepath.Dir(to), ".nephele-backup-")
			if err != nil {
				return fmt.Errorf("--to: %w", err)
			}
			defer func() { _ = os.RemoveAll(staged) }()
			m := backup.Manifest{Version: n.Version, Time: time.Now().UTC()}
			var notes []string
			if dataDir != "" {
				m.Kind, m.Data = backup.OfUp, n.Local.Data
				err = n.Local.Backup(cmd.Context(), dataDir, staged)
			} else {
				m.Kind, m.Data = backup.OfCluster, clusterData
				notes, err = n.fromCluster(cmd.Context(), &cluster, staged)
			}
			if err != nil {
				return fmt.Errorf("back up: %w", err)
			}
			if err := backup.Pack(cmd.Context(), staged, m, to); err != nil {
				return err
			}
			sum, err := sumOf(to)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", sum, to)
			printNotes(cmd.OutOrStdout(), notes)
			return nil
		},
	}
	c.Flags().StringVar(&to, "to", "", "file to write; it must not exist")
	n.place(c, &cluster, &dataDir, "data directory of nephele up to back up, instead of a cluster")
	return c
}

// place adds the flags that say what is backed up, or where a backup goes.
func (n Needs) place(c *cobra.Command, cluster *terminal.Cluster, dataDir *string, usage string) {
	cluster.Register(c.Flags())
	if n.Local != nil {
		c.Flags().StringVar(dataDir, "data-dir", "", usage)
		c.Example += "\n" + c.Example + " --data-dir nephele-data"
	}
}

func (n Needs) fromCluster(ctx context.Context, cluster *terminal.Cluster, into string) ([]string, error) {
	c, err := n.connect(cluster)
	if err != nil {
		return nil, err
	}
	return backupCluster(ctx, c, into)
}

func (n Needs) connect(cluster *terminal.Cluster) (client.Client, error) {
	cfg, err := cluster.Config()
	if err != nil {
		return nil, fmt.Errorf("find the Kubernetes API: %w", err)
	}
	return n.Client(cfg)
}

func (n Needs) restore() *cobra.Command {
	var cluster terminal.Cluster
	var dataDir string
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore what nephele backup wrote, where nothing of it is",
		Long: `Restore what nephele backup wrote, where nothing of it is: into a cluster in which the definitions are installed and nothing of
their kinds is, best before the controller runs; or with --data-dir into a folder that is missing or empty. Nothing that is there is
changed. A file that is broken, or was made by a newer release, is refused. A restore that was interrupted is begun again with the same
file.

` + copies,
		Example: `  nephele restore nephele-backup.tar.gz`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dataDir != "" {
				return n.toDataDir(cmd, args[0], dataDir)
			}
			return n.toCluster(cmd, args[0], &cluster)
		},
	}
	n.place(c, &cluster, &dataDir, "folder that becomes a data directory of nephele up, instead of a cluster; missing or empty")
	return c
}

func (n Needs) toDataDir(cmd *cobra.Command, file, dataDir string) error {
	var m backup.Manifest
	err := backup.Into(dataDir, func(staged string) (err error) {
		m, err = backup.Unpack(cmd.Context(), file, staged, backup.Expected{Kind: backup.OfUp, Version: n.Version, Data: n.Local.Data})
		if err != nil {
			return err
		}
		return n.Local.Restore(staged)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s is as it was at %s. Start it with nephele up --data-dir %s.\n\n%s\n", dataDir, m.Time.UTC().Format(time.RFC3339), dataDir, copies)
	return nil
}

func (n Needs) toCluster(cmd *cobra.Command, file string, cluster *terminal.Cluster) error {
	staged, err := os.MkdirTemp("", "nephele-restore-")
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer func() { _ = os.RemoveAll(staged) }()
	m, err := backup.Unpack(cmd.Context(), file, staged, backup.Expected{Kind: backup.OfCluster, Version: n.Version, Data: clusterData})
	if err != nil {
		return err
	}
	sum, err := sumOf(file)
	if err != nil {
		return err
	}
	b, err := readContent(staged, sum[:16])
	if err != nil {
		return fmt.Errorf("restore: %s: %w", file, err)
	}
	c, err := n.connect(cluster)
	if err != nil {
		return err
	}
	if err := b.empty(cmd.Context(), c); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	made, notes, err := b.restore(cmd.Context(), c)
	printNotes(cmd.OutOrStdout(), notes)
	if err != nil {
		return fmt.Errorf("restore: %w; %d objects were made, and the same command goes on", err, made)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d of %d objects of %s were made; the others were there. Secrets of accounts are yours to put back.\n\n%s\n",
		made, len(b.objects), m.Time.UTC().Format(time.RFC3339), copies)
	return nil
}

func printNotes(out io.Writer, notes []string) {
	for _, note := range notes {
		fmt.Fprintln(out, "note:", terminal.Printable(note))
	}
}

func sumOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}
