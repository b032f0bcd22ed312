// Package rolecmd holds the commands that print what an account of a cloud must permit.
//
// They read their flags only, call nothing, and print a document that the cloud takes as it is. The
// package keeps no state.
package rolecmd

import "github.com/spf13/cobra"

// Notes prints remarks for people beside the answer of a command.
type Notes func(cmd *cobra.Command, lines []string)

// Commands are the commands, which print their remarks with notes.
func Commands(notes Notes) []*cobra.Command {
	return []*cobra.Command{newIAMPolicyCommand(notes), newAzureRoleCommand(notes)}
}
