// Package keyscmd holds the commands that show and change keys: "nephele keys list" and "nephele
// keys rotate".
//
// It owns their flags, what they ask and what they print. Package keyring knows what a list of keys
// is, and the packages that use keys know what to do with them. A command runs once.
package keyscmd

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/platform/keyring"
)

// List is a list of keys, as people see and change it.
type List struct {
	// Name is the word by which it is rotated.
	Name string
	// Does says what the keys are for, and Believers which programs verify or decrypt with them.
	Does, Believers string
	// Kind makes keys.
	Kind keyring.Kind
	// Read reads the list, and Change replaces it as a whole.
	Read   func(ctx context.Context) (keyring.Ring, error)
	Change func(ctx context.Context, next func(keyring.Ring) (keyring.Ring, error)) error
	// Next puts a key before a list; nil means Ring.Rotated.
	Next func(r keyring.Ring, made keyring.Key, now time.Time) (keyring.Ring, error)
	// Ends says until when a key of a list is believed, the zero time if without end; nil means
	// that none ends.
	Ends func(r keyring.Ring, i int) time.Time
	// Uses says what needs each key, by its ID; nil means that nobody knows.
	Uses func(ctx context.Context, r keyring.Ring) (map[string][]string, error)
	// Kept says why belief in a key cannot be ended; empty if it can.
	Kept string
	// Then says what happens when a key was made, and Lost what the end of belief in one means.
	Then, Lost string
}

// Needs is what the commands are given.
type Needs struct {
	// Client reaches a cluster.
	Client func(*rest.Config) (client.Client, error)
	// Directory are the lists in the data directory of "nephele up"; nil in a program that has no
	// such command.
	Directory func(dir string) ([]List, error)
	// Now is the clock.
	Now func() time.Time
}

// Command is "nephele keys".
func Command(n Needs) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "See the keys by which Nephele signs and encrypts, and change them",
		Long: `See the keys by which Nephele signs and encrypts, and change them.

Each is a list: the current key signs or encrypts, and former ones are still believed, so that a change leaves no gap.`,
		Args: terminal.NoSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(n.list(), n.rotate())
	return cmd
}

// from are the flags that say where the lists are.
type from struct {
	Needs
	cluster terminal.Cluster
	dir     string
}

func (f *from) register(cmd *cobra.Command) {
	f.cluster.Register(cmd.Flags())
	if f.Directory != nil {
		cmd.Flags().StringVar(&f.dir, "data-dir", "", "the data directory of nephele up, for the keys in it, in the place of those in a cluster")
	}
}

// lists are those that the flags lead to. The client is nil for those in a directory.
func (f *from) lists(ctx context.Context) ([]List, client.Client, error) {
	if f.dir != "" {
		lists, err := f.Directory(f.dir)
		return lists, nil, err
	}
	cfg, err := f.cluster.Config()
	if err != nil {
		return nil, nil, fmt.Errorf("finding the cluster: %w", err)
	}
	c, err := f.Client(cfg)
	if err != nil {
		return nil, nil, err
	}
	return inCluster(ctx, c, f.Now), c, nil
}

func (n Needs) list() *cobra.Command {
	f := &from{Needs: n}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the keys, since when each is there, and what needs it",
		Long: `List the keys, since when each is there, and what needs it.

In a cluster this needs the right to read the Secrets of the keys. The keys are not shown.`,
		Example: exampleOf(n.Directory != nil, "  nephele keys list", "  nephele keys list --data-dir nephele-data"),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lists, _, err := f.lists(cmd.Context())
			if err != nil {
				return err
			}
			return show(cmd.Context(), cmd.OutOrStdout(), lists, n.Now())
		},
	}
	f.register(cmd)
	return cmd
}

func exampleOf(local bool, cluster, directory string) string {
	if local {
		return cluster + "\n" + directory
	}
	return cluster
}

// maxShown is how many of what needs a key are named.
const maxShown = 3

// counted names some of what needs a key.
func counted(what []string) string {
	if len(what) == 0 {
		return "nothing"
	}
	text := strings.Join(what[:min(len(what), maxShown)], ", ")
	if more := len(what) - maxShown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return terminal.Printable(text)
}

// show prints lists. One that cannot be read does not hide the others.
func show(ctx context.Context, out io.Writer, lists []List, now time.Time) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KEYS\tID\tSTATE\tSINCE\tNEEDED BY")
	var errs []error
	for _, l := range lists {
		ring, err := l.Read(ctx)
		var uses map[string][]string
		if err == nil && l.Uses != nil {
			uses, err = l.Uses(ctx, ring)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", l.Name, err))
		}
		for i, k := range ring {
			since, state, by := "?", "current", "?"
			if !k.Since.IsZero() {
				since = k.Since.UTC().Format(time.DateOnly)
			}
			if i > 0 {
				state = "former"
			}
			if l.Ends != nil {
				if end := l.Ends(ring, i); !end.IsZero() && !now.Before(end) {
					state = "over"
				} else if !end.IsZero() {
					state += ", until " + end.UTC().Format(time.DateOnly)
				}
			}
			if uses != nil {
				by = counted(uses[k.ID])
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", l.Name, k.ID, state, since, by)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	t = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KEYS\tWHAT FOR\tBELIEVED BY")
	for _, l := range lists {
		fmt.Fprintf(t, "%s\t%s\t%s\n", l.Name, l.Does, l.Believers)
	}
	return errors.Join(append([]error{t.Flush()}, errs...)...)
}

func (n Needs) rotate() *cobra.Command {
	f := &from{Needs: n}
	var distrust string
	var yes bool
	cmd := &cobra.Command{
		Use:   "rotate KEYS",
		Short: "Make another key the current one, or end belief in one",
		Long: `Make another key the current one. The one before goes on being believed, so that nothing has to be done anew and no flow changes.

After an incident --distrust ends belief in a key, by its ID. If that is the current one, another one is made first. The command says
what is not believed any more, and asks; --yes does not ask.`,
		Example: exampleOf(n.Directory != nil, `  nephele keys rotate records
  nephele keys rotate hosts --distrust 0123456789abcdef`, "  nephele keys rotate cluster-ca --data-dir nephele-data"),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			lists, c, err := f.lists(cmd.Context())
			if err != nil {
				return err
			}
			i := slices.IndexFunc(lists, func(l List) bool { return l.Name == args[0] })
			if i < 0 {
				var names []string
				for _, l := range lists {
					names = append(names, l.Name)
				}
				return fmt.Errorf("there are no keys %q here: want one of %s", args[0], strings.Join(names, ", "))
			}
			now := n.Now()
			if c != nil {
				if err := sameTime(cmd.Context(), c, now); err != nil {
					return err
				}
			}
			return change(cmd, lists[i], distrust, yes, now)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&distrust, "distrust", "", "the ID of a key to end belief in")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask before belief in a key ends")
	return cmd
}

// change rotates a list or ends belief in a key of it, or both.
func change(cmd *cobra.Command, l List, distrust string, yes bool, now time.Time) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	ring, err := l.Read(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", l.Name, err)
	}
	seen := ring[0].ID
	if distrust != "" && l.Kept != "" {
		return fmt.Errorf("%s: belief in a key cannot be ended: %s", l.Name, l.Kept)
	}
	if distrust != "" {
		if _, ok := ring.Find(distrust); !ok {
			return fmt.Errorf("there is no key %q among %s: see nephele keys list", distrust, l.Name)
		}
		if err := report(ctx, out, l, ring, distrust); err != nil {
			return err
		}
		if !yes && !confirmed(cmd.InOrStdin(), out, distrust) {
			fmt.Fprintln(out, "Nothing was changed.")
			return terminal.ErrNo
		}
	}
	made := ""
	err = l.Change(ctx, func(r keyring.Ring) (keyring.Ring, error) {
		if r[0].ID != seen {
			return nil, errors.New("somebody else has made another key meanwhile: see nephele keys list")
		}
		r = l.lasting(r, now)
		if distrust == "" || distrust == r[0].ID {
			next, err := l.Kind.Make(rand.Reader, now)
			if err != nil {
				return nil, err
			}
			add := l.Next
			if add == nil {
				add = func(r keyring.Ring, made keyring.Key, _ time.Time) (keyring.Ring, error) { return r.Rotated(made) }
			}
			if r, err = add(r, next, now); err != nil {
				return nil, err
			}
			made = next.ID
		}
		if _, listed := r.Find(distrust); listed {
			return r.Without(distrust)
		}
		return r, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", l.Name, err)
	}
	if made != "" {
		fmt.Fprintf(out, "The key %s is the current one of %s.", made, l.Name)
		if distrust == "" { // else tell has said what happens
			fmt.Fprintf(out, " %s", l.Then)
		}
		fmt.Fprintln(out)
	}
	if distrust != "" {
		fmt.Fprintf(out, "The key %s is not believed any more.\n", distrust)
	}
	return nil
}

// lasting is a list without the keys whose time is over. The end of each depends on the one before
// it: if that went alone, a key that is over would be believed again.
func (l List) lasting(r keyring.Ring, now time.Time) keyring.Ring {
	for i := 1; l.Ends != nil && i < len(r); i++ {
		if !now.Before(l.Ends(r, i)) {
			return r[:i]
		}
	}
	return r
}

// report says what the end of belief in a key means.
func report(ctx context.Context, out io.Writer, l List, ring keyring.Ring, id string) error {
	fmt.Fprintf(out, "Without the key %s of %s:\n%s\n", id, l.Name, l.Lost)
	if l.Uses == nil {
		return nil
	}
	uses, err := l.Uses(ctx, ring)
	if err != nil {
		return fmt.Errorf("find out what needs the key: %w", err)
	}
	fmt.Fprintln(out, "It is needed by:")
	for _, u := range uses[id] {
		fmt.Fprintf(out, "  %s\n", terminal.Printable(u))
	}
	if len(uses[id]) == 0 {
		fmt.Fprintln(out, "  nothing")
	}
	return nil
}

// confirmed asks for the ID of the key; only that is yes.
func confirmed(in io.Reader, out io.Writer, id string) bool {
	fmt.Fprintf(out, "Type the ID of the key to end belief in it: ")
	answer, err := bufio.NewReader(in).ReadString('\n')
	fmt.Fprintln(out)
	return (err == nil || errors.Is(err, io.EOF)) && strings.TrimSpace(answer) == id
}

// sorted puts texts in order, without those that are there twice.
func sorted(texts []string) []string {
	slices.SortFunc(texts, cmp.Compare)
	return slices.Compact(texts)
}
