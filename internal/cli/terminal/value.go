package terminal

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// PrintValue prints a value as JSON or YAML.
func PrintValue(out io.Writer, format string, v any) error {
	if format == "yaml" {
		raw, err := yaml.Marshal(v)
		if err != nil {
			return fmt.Errorf("writing YAML: %w", err)
		}
		_, err = out.Write(raw)
		return err
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Refused says on standard error what was refused.
func Refused[T fmt.Stringer](cmd *cobra.Command, refused []T) error {
	for _, r := range refused {
		fmt.Fprintf(cmd.ErrOrStderr(), "error: %s\n", r)
	}
	if len(refused) > 0 {
		return ErrRefused
	}
	return nil
}

// Notes prints remarks for people to standard error.
func Notes(cmd *cobra.Command, lines []string) {
	for _, n := range lines {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", PrintableLines(n))
	}
}

// Confirmed asks; only yes is yes.
func Confirmed(in io.Reader, out io.Writer, question string) bool {
	fmt.Fprintf(out, "%s [y/N] ", question)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		fmt.Fprintln(out)
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}
