package up

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/standalone/internal/controlplane"
)

// NewHubCommand returns the command "hub", which makes one hub of several "nephele up". No is the
// error that it returns when members are missing and this has been printed.
func NewHubCommand(no error) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hub",
		Short: "Make one hub of several \"nephele up\", and show its members",
		Long: `Make one hub of several "nephele up", and show its members.

The first is started with --peer-listen, and each other one is added there by name and started with what that prints. All keep one database: what is
written at one is there at all, as long as most of them run, so three bear the loss of one. One of them leads; when it is gone another one does.`,
		Example: `  nephele up --listen 10.0.0.1:6443 --api-listen 10.0.0.1:10349 --peer-listen 10.0.0.1:2380
  nephele hub add second --peer 10.0.0.2:2380 --out second.json      # on the first machine; then take the file to the second
  nephele up --listen 10.0.0.2:6443 --api-listen 10.0.0.2:10349 --peer-listen 10.0.0.2:2380 --join second.json
  nephele hub list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var dir string
	cmd.PersistentFlags().StringVar(&dir, "data-dir", DefaultDataDir, "data directory of a \"nephele up\" that runs on this machine")
	cmd.AddCommand(newHubAddCommand(&dir), newHubListCommand(&dir, no), newHubRemoveCommand(&dir))
	return cmd
}

// reachHub does something with the control plane on a data directory.
func reachHub(dir string, do func(*controlplane.Peering) error) error {
	p, err := controlplane.OpenPeering(dir)
	if err != nil {
		return err
	}
	return errors.Join(do(p), p.Close())
}

func newHubAddCommand(dir *string) *cobra.Command {
	var peer, file string
	cmd := &cobra.Command{
		Use:   "add NAME --peer IP:PORT --out FILE",
		Short: "Make room for a member, and write what it is started with",
		Long: `Make room for a member, and write what it is started with: nephele up --join FILE on a new data directory. The member counts when it has caught up.

The file has the keys that all members share. Whoever reads it can do everything in the cluster: take it to the other machine as you would take a password, and
delete it when the member runs.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return errors.New("--out is missing: want the file to write, for nephele up --join")
			}
			// Before anything is changed.
			out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			err = reachHub(*dir, func(p *controlplane.Peering) error {
				invitation, err := p.Add(cmd.Context(), args[0], peer)
				if err != nil {
					return err
				}
				text := json.NewEncoder(out)
				text.SetIndent("", "  ")
				return text.Encode(invitation)
			})
			if err = errors.Join(err, out.Close()); err != nil {
				return errors.Join(err, os.Remove(file))
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "On the other machine, with this file: nephele up --join %s --peer-listen %s --listen ... --api-listen ...\n", file, peer)
			return err
		},
	}
	cmd.Flags().StringVar(&peer, "peer", "", "IP:PORT by which the others will reach it, its --peer-listen (required)")
	cmd.Flags().StringVar(&file, "out", "", "file to write, which must not be there (required)")
	return cmd
}

func newHubListCommand(dir *string, no error) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Show the members, which of them answer, and whether they are enough",
		Long: `Show the members, which of them answer, and whether they are enough.

Exit codes: 0 all members answer; 1 one does not, or there are not enough of them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return reachHub(*dir, func(p *controlplane.Peering) error {
				members, err := p.Members(cmd.Context())
				if err != nil {
					return err
				}
				fine, err := showMembers(cmd.OutOrStdout(), members)
				if err == nil && !fine {
					err = no
				}
				return err
			})
		},
	}
}

// showMembers prints members, and reports whether all are well.
func showMembers(out io.Writer, members []controlplane.Member) (fine bool, err error) {
	fine = true
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tPEER\tSTATE\tANSWERS")
	for _, m := range members {
		name, state, answers := m.Name, "member", "yes"
		switch {
		case name == "":
			name, state = "-", "added, not started yet"
		case m.Learner:
			state = "catching up"
		case m.Leads:
			state = "member, others follow it"
		}
		peer := m.Peer
		if strings.Contains(peer, "://") {
			peer = "none: started without --peer-listen"
		}
		if !m.Reached {
			answers, fine = "no", false
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", name, peer, state, answers)
	}
	if err := w.Flush(); err != nil {
		return false, err
	}
	all, needed, reached := controlplane.Quorum(members)
	switch {
	case reached < needed:
		_, err = fmt.Fprintf(out, "%d of %d answer, and %d are needed: nothing can be changed. What is in force stays so.\n", reached, all, needed)
	case all == 1:
		_, err = fmt.Fprintln(out, "There is one member. Without it nothing can be changed.")
	default:
		_, err = fmt.Fprintf(out, "%d of %d answer, and %d are needed: %d more may be missing.\n", reached, all, needed, reached-needed)
	}
	return fine && reached >= needed, err
}

func newHubRemoveCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "remove {NAME | PEER}",
		Short: "Take a member out, by its name or its address",
		Long: `Take a member out, by its name or its address. It ends, and can come back only on a new data directory, added anew. A member that is lost is removed before
another one takes its place, so that the lost one does not count when it is asked how many are most of them.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return reachHub(*dir, func(p *controlplane.Peering) error { return p.Remove(cmd.Context(), args[0]) })
		},
	}
}
