package main

import (
	"encoding/json"
	"fmt"
	"path"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/firstboot"
)

// otherNames are the commands that this program is when it is called by their
// names.
func otherNames() map[string]string {
	return map[string]string{"nodeadm": "nodeadm", "bootstrap.sh": "bootstrap.sh", "aws-iam-authenticator": "aws-iam-authenticator"}
}

// commandLine is the arguments of this program, whatever name it goes by.
func commandLine(argv []string) []string {
	if len(argv) == 0 {
		return nil
	}
	if command, ok := otherNames()[path.Base(argv[0])]; ok {
		return append([]string{command}, argv[1:]...)
	}
	return argv[1:]
}

// nodeadmCommand answers to the name that people's user data calls: the
// subcommands, flags and default source are those of amazon-eks-ami's nodeadm.
func nodeadmCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nodeadm",
		Short: "Join as Amazon Linux 2023's nodeadm does: init, config check, config dump",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var i initFlags
	i.joining.flags(cmd)
	start := &cobra.Command{
		Use:   "init",
		Short: "Join this machine to its cluster as its NodeConfig asks",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return i.run(cmd) },
	}
	i.flags(start)
	allowEmpty(start, "skip", "config-cache")
	config := &cobra.Command{Use: "config", Short: "Look at the NodeConfig", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	config.AddCommand(
		&cobra.Command{
			Use: "check", Short: "Say everything that is wrong with the NodeConfig", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				_, err := i.checked(cmd)
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), "the NodeConfig is valid")
				}
				return err
			},
		},
		&cobra.Command{
			Use: "dump", Short: "Print the merged NodeConfig", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				c, err := i.checked(cmd)
				if err != nil {
					return err
				}
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetEscapeHTML(false)
				e.SetIndent("", "  ")
				return e.Encode(c)
			},
		},
	)
	cmd.AddCommand(start, config)
	return cmd
}

// checked reads and checks the NodeConfig. It changes nothing and needs no
// root.
func (j *joining) checked(cmd *cobra.Command) (*nodeconfig.NodeConfig, error) {
	h, err := host.Live()
	if err != nil {
		return nil, err
	}
	defer h.Close()
	service, err := firstboot.OpenMetadata(cmd.Context())
	if err != nil {
		return nil, err
	}
	c, err := j.load(cmd.Context(), h, service, logTo(cmd.ErrOrStderr()))
	if err == nil {
		err = c.Located(c.Validate())
	}
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "the NodeConfig is not valid:\n%v\n", err)
		return nil, exitError(1)
	}
	return c, nil
}

// authenticatorCommand answers to aws-iam-authenticator's name, which
// kubeconfigs of Amazon Linux 2's kind call.
func authenticatorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "aws-iam-authenticator", Short: "Print a token as aws-iam-authenticator does", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	token := tokenCommand()
	allowEmpty(token, "region")
	cmd.AddCommand(token)
	return cmd
}

// joinCommands are those of a node's first boot.
func joinCommands() []*cobra.Command {
	return []*cobra.Command{initCommand(), bootHookCommand(), tokenCommand(), nodeadmCommand(), bootstrapSHCommand(), authenticatorCommand(), diagnoseCommand()}
}
