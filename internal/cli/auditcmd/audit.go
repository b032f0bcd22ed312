// Package auditcmd is the command "nephele audit": it finds lines of the record of changes that are
// missing, changed, added or moved.
//
// It owns flags and printing only; internal/cloud/audit knows what a record is and how to prove it.
package auditcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/cloud/audit"
)

// Command is "nephele audit".
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "Look at the record of changes",
		Args:  terminal.NoSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(verifyCommand())
	return c
}

func verifyCommand() *cobra.Command {
	var logs, known []string
	var output string
	c := &cobra.Command{
		Use:   "verify [FILE] [--log FILE|-]... [--known HASH]...",
		Short: "Find lines of the record of changes that are missing, changed, added or moved",
		Long: `Find lines of the record of changes that are missing, changed, added or moved. FILE is the file of --audit-log; its old files are read
as well. --log reads what controllers logged as JSON, of any number of replicas; "-" is standard input.

Each line names the one before it by its hash. So a process that may write all files can cut them off, write them anew from some line on, or go on
after the last one: keep its hash elsewhere, and give it with --known. docs/audit.md says more. Of a controller with --audit-log give FILE, too:
its log has every second line only.

Exit codes: 0 nothing was found; 1 the record was changed, or a part of it is missing; 2 bad input or failure.`,
		Example: `  nephele audit verify nephele-data/logs/audit.log
  kubectl logs -n kube-system deployment/nephele-controller | nephele audit verify --log -`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args)+len(logs) == 0 {
				return errors.New("name the file of --audit-log, or a log with --log")
			}
			if output != "" && output != "json" {
				return fmt.Errorf("--output %q: want json, or nothing", output)
			}
			var v audit.Verifier
			for _, file := range args {
				if err := v.Files(file); err != nil {
					return err
				}
			}
			for _, name := range logs {
				if err := readLog(&v, cmd.InOrStdin(), name); err != nil {
					return err
				}
			}
			found := v.Verify(known...)
			if found.Lines+found.Former == 0 {
				return errors.New("there is no line of a record of changes in it; logs have to be JSON (--log-format json)")
			}
			if err := print(cmd.OutOrStdout(), found, output); err != nil {
				return err
			}
			if len(found.Faults) > 0 {
				return terminal.ErrNo
			}
			return nil
		},
	}
	c.Flags().StringArrayVar(&logs, "log", nil, "what a controller logged as JSON; - is standard input")
	c.Flags().StringArrayVar(&known, "known", nil, "hash of a line that must be there")
	c.Flags().StringVarP(&output, "output", "o", "", "json, or text if nothing is said")
	return c
}

func readLog(v *audit.Verifier, stdin io.Reader, name string) error {
	if name == "-" {
		return v.Log("standard input", stdin)
	}
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("--log: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := v.Log(name, f); err != nil {
		return fmt.Errorf("--log %s: %w", name, err)
	}
	return nil
}

func print(out io.Writer, found audit.Evidence, format string) error {
	if format == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(found)
	}
	for _, f := range found.Faults {
		fmt.Fprintln(out, "FAULT  ", terminal.Printable(f))
	}
	for _, r := range found.Remarks {
		fmt.Fprintln(out, "remark ", terminal.Printable(r))
	}
	fmt.Fprintf(out, "%d lines of %d processes were read.", found.Lines, len(found.Chains))
	if len(found.Faults) == 0 {
		fmt.Fprint(out, " Each follows the one before it.")
	}
	fmt.Fprintln(out)
	if n := len(found.Chains); n > 0 {
		last := found.Chains[n-1]
		fmt.Fprintf(out, "The last one is %s:%d of %s; keep its hash for --known:\n%s\n", terminal.Printable(last.Process), last.Last,
			last.End.UTC().Format("2006-01-02 15:04:05 MST"), terminal.Printable(last.Hash))
	}
	return nil
}
