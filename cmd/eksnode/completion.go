package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// shells are the shells that completion scripts exist for.
func shells() []string { return []string{"bash", "zsh", "fish", "powershell"} }

// completionCommand prints the completion script for a shell.
func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print the completion script for a shell",
		Long: `SHELL is bash, zsh, fish or powershell. The script completes commands, flags and
values such as the names of rules. The deb, rpm and Arch Linux packages install
the scripts of bash, zsh and fish. The bash script requires bash-completion.`,
		Example: `  # Complete in this shell
  source <(eksnode completion bash)
  source <(eksnode completion zsh)
  eksnode completion fish | source
  eksnode completion powershell | Out-String | Invoke-Expression

  # Complete in every new shell
  eksnode completion bash > /etc/bash_completion.d/eksnode
  eksnode completion zsh > "${fpath[1]}/_eksnode"
  eksnode completion fish > ~/.config/fish/completions/eksnode.fish`,
		Args: oneOf("a shell", shells()),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return writeBashScript(cmd.Root(), out)
			case "zsh":
				return cmd.Root().GenZshCompletion(out)
			case "fish":
				return cmd.Root().GenFishCompletion(out, true)
			default:
				return cmd.Root().GenPowerShellCompletionWithDesc(out)
			}
		},
	}
}

// writeBashScript writes cobra's script for bash with one change: bash's printf %q
// escapes commas, so in cobra's script nothing matches after a comma in a list.
func writeBashScript(root *cobra.Command, out io.Writer) error {
	var script strings.Builder
	if err := root.GenBashCompletionV2(&script, true); err != nil {
		return err
	}
	const (
		begun  = `comp=$(printf "%q" "${compline%%$tab*}")`
		only   = `COMPREPLY[0]=$(printf "%q" "${COMPREPLY[0]}")`
		single = `COMPREPLY[0]=$(printf "%q" "${COMPREPLY[0]%%$tab*}")`
		commas = "; COMPREPLY[0]=${COMPREPLY[0]//\\\\,/,}"
	)
	_, err := strings.NewReplacer(begun, begun+"; comp=${comp//\\\\,/,}", only, only+commas, single, single+commas).WriteString(out, script.String())
	return err
}
