package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/firstboot"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
)

// commandLine returns the arguments of this program under any of its names. A link
// with the name of another program runs the command of that name.
func commandLine(argv []string) []string {
	if len(argv) == 0 {
		return nil
	}
	command := path.Base(argv[0])
	if !slices.Contains([]string{"nodeadm", "bootstrap.sh", "aws-iam-authenticator"}, command) {
		return argv[1:]
	}
	args := append([]string{command}, argv[1:]...)
	if command == "nodeadm" && len(args) > 1 && args[1] == "-d" {
		args[1] = "--development" // before a subcommand; after init, -d is --daemon
	}
	return args
}

// nodeadmCommand has the subcommands, flags and default source of amazon-eks-ami's
// nodeadm, because existing user data calls nodeadm.
func nodeadmCommand() *cobra.Command {
	cmd := newCommand("nodeadm", cobra.NoArgs, noCommand)
	var i initFlags
	i.joining.flags(cmd)
	cmd.PersistentFlags().Bool("development", false, "")
	start := newCommand("init", cobra.NoArgs, i.run)
	i.flags(start)
	allowEmpty(start, "skip", "config-cache", "daemon")
	config := newCommand("config", cobra.NoArgs, noCommand)
	check := newCommand("check", cobra.NoArgs, i.check)
	var output string
	dump := newCommand("dump", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return i.dump(cmd, output) })
	bind(dump, targets{"config-output,o": &output, "config-cache": &i.cache})
	allowEmpty(dump, "config-output", "config-cache")
	config.AddCommand(check, dump)
	cmd.AddCommand(start, config)
	for _, c := range []*cobra.Command{cmd, start, config, check, dump} {
		c.Version = version.String()
	}
	return cmd
}

// noCommand prints the help and exits with code 2, as nodeadm does without a
// subcommand.
func noCommand(cmd *cobra.Command, _ []string) error {
	cmd.SetOut(cmd.ErrOrStderr())
	return errors.Join(errors.New(cmd.CommandPath()+": a subcommand is missing"), cmd.Help(), exitError(usageCode))
}

// read reads the NodeConfig for a function, and prints why the NodeConfig is not valid. It
// changes nothing and needs no root.
func (j *joining) read(cmd *cobra.Command, use func(*nodeconfig.NodeConfig) (invalid, err error)) error {
	h, err := host.Live()
	if err != nil {
		return err
	}
	defer h.Close()
	service, invalid := firstboot.OpenMetadata(cmd.Context())
	var c *nodeconfig.NodeConfig
	if invalid == nil {
		c, _, invalid = j.resolve(cmd.Context(), h, service, logTo(cmd.ErrOrStderr()))
	}
	if invalid == nil {
		invalid, err = use(c)
	}
	if invalid != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "the NodeConfig is not valid:\n%v\n", invalid)
		return exitError(1)
	}
	return err
}

// check prints every mistake in the NodeConfig.
func (j *joining) check(cmd *cobra.Command, _ []string) error {
	return j.read(cmd, func(c *nodeconfig.NodeConfig) (invalid, err error) {
		if invalid = c.Located(c.Validate()); invalid != nil {
			return invalid, nil
		}
		for _, w := range c.Warnings() {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+w)
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "the NodeConfig is valid")
		return nil, err
	})
}

// dump writes the merged NodeConfig in JSON. An incomplete NodeConfig is written too,
// with a warning.
func (j *joining) dump(cmd *cobra.Command, output string) error {
	return j.read(cmd, func(c *nodeconfig.NodeConfig) (invalid, err error) {
		if err := c.Validate(); err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: the NodeConfig is not valid:\n%v\n", err)
		}
		text, err := merged(c)
		if err != nil {
			return nil, fmt.Errorf("encoding the NodeConfig: %w", err)
		}
		if output == "" {
			_, err = cmd.OutOrStdout().Write(text)
			return nil, err
		}
		var to *destination
		if err = os.MkdirAll(filepath.Dir(output), 0o755); err == nil {
			to, err = openDestination(cmd.Context(), output)
		}
		if err == nil {
			err = to.write(text)
		}
		if err != nil {
			err = fmt.Errorf("writing --config-output: %w", err)
		}
		return nil, err
	})
}

// merged is a NodeConfig in JSON.
func merged(c *nodeconfig.NodeConfig) ([]byte, error) {
	spec, err := c.SpecJSON()
	if err != nil {
		return nil, err
	}
	metadata := c.Metadata
	if metadata == nil {
		metadata = nodeconfig.Document{}
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err = e.Encode(map[string]any{
		"apiVersion": nodeconfig.APIVersion, "kind": nodeconfig.Kind, "metadata": metadata, "spec": spec,
	})
	return text.Bytes(), err
}

// authenticatorCommand is the command for the name aws-iam-authenticator, which
// kubeconfigs of Amazon Linux 2 call.
func authenticatorCommand() *cobra.Command {
	cmd := newCommand("aws-iam-authenticator", cobra.NoArgs, showHelp)
	cmd.Hidden = true
	token := tokenCommand()
	allowEmpty(token, "region")
	cmd.AddCommand(token)
	return cmd
}

// bootstrapSHCommand is the command for the name of Amazon Linux 2's bootstrap.sh.
// Package arguments reads its flags, because they may follow the cluster's name and
// booleans take a value too.
func bootstrapSHCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "bootstrap.sh [flags] CLUSTER",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := arguments.Read(args, os.Getenv)
			if errors.Is(err, arguments.ErrHelp) {
				fmt.Fprint(cmd.OutOrStdout(), arguments.Usage("bootstrap.sh"))
				return exitError(1) // as the script does
			}
			if err != nil {
				return fmt.Errorf("bootstrap.sh: %w\n`bootstrap.sh --help` lists the flags", err)
			}
			return onNode(cmd, func(h *host.Host, service *firstboot.Metadata, log func(string)) error {
				service.AtBoot(log)
				s, err := services(service, log)
				if err != nil {
					return err
				}
				if len(a.Variables) > 0 {
					log("settings from the environment: " + strings.Join(a.Variables, ", "))
				}
				n, err := s.FromArguments(cmd.Context(), h, a)
				if err != nil {
					return err
				}
				return join(cmd.Context(), h, s, n, bootstrap.Selection{})
			})
		},
	}
}
