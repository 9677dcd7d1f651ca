package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// everyFlag calls do with each flag of each command, and with a new command for
// parsing.
func everyFlag(t *testing.T, do func(path string, c *cobra.Command, f *pflag.Flag)) {
	t.Helper()
	var walk func(words []string, c *cobra.Command)
	walk = func(words []string, c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			fresh, rest, err := root().Find(words)
			require.NoError(t, err)
			require.Empty(t, rest)
			do(c.CommandPath(), fresh, f)
		})
		for _, sub := range c.Commands() {
			walk(append(words[:len(words):len(words)], sub.Name()), sub)
		}
	}
	walk(nil, root())
}

// An empty value usually comes from an unset shell variable. It must not mean the
// flag's default, and never the live machine.
func TestEmptyFlagValuesAreRefused(t *testing.T) {
	compatible := map[string]bool{ // Amazon's programs accept these
		"eksnode nodeadm init --skip": true, "eksnode nodeadm init --config-cache": true, "eksnode nodeadm init --daemon": true,
		"eksnode nodeadm config dump --config-cache": true, "eksnode nodeadm config dump --config-output": true, "eksnode aws-iam-authenticator token --region": true,
	}
	flags := 0
	everyFlag(t, func(path string, _ *cobra.Command, f *pflag.Flag) {
		flags++
		for _, value := range []string{"", " ", "\t\n"} {
			for _, args := range [][]string{{"--" + f.Name + "=" + value}, {"--" + f.Name, value}} {
				if f.NoOptDefVal != "" && len(args) > 1 {
					continue // the value of a switch follows an equals sign
				}
				c, _, err := root().Find(strings.Fields(path)[1:])
				require.NoError(t, err)
				err = c.ParseFlags(args)
				if compatible[path+" --"+f.Name] && value == "" {
					assert.NoError(t, err, "%s %q", path, args)
				} else if assert.Error(t, err, "%s %q", path, args) {
					assert.Equal(t, "--"+f.Name+": the value is empty; is a shell variable unset?", flagError(c, err).Error())
				}
			}
		}
	})
	assert.Greater(t, flags, 80)
}
