//go:build agent

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

const workstationHelp = ""

func workstationCommands() []*cobra.Command { return nil }

// diskFlags adds no flags: the agent audits no disk.
func diskFlags(*cobra.Command) func(*cobra.Command) (diskAudit, error) {
	return func(*cobra.Command) (diskAudit, error) { return nil, nil }
}

// supplyAll returns nil: the agent has no code to pull images.
func supplyAll(provisioner.Spec, provisioner.Local) (provisioner.Supply, error) { return nil, nil }

func auditChild(context.Context) (code int, child bool) { return 0, false }

func workstationValues() map[string]cobra.CompletionFunc { return nil }

// reportText refuses pages: the agent writes only JSON.
func reportText(file string, r plan.Report) ([]byte, error) {
	if ending := strings.ToLower(filepath.Ext(file)); ending == ".html" || ending == ".md" {
		return nil, errors.New("the eksnode of nodes writes JSON; name a file with another ending than .html or .md")
	}
	return plan.EncodeJSON(r)
}

// checkUserData is nil: the agent has no libraries for user data of every family.
var checkUserData diagnose.UserData

// consoles refuses instances: the agent does not contain the client of EC2.
type consoles struct{}

func (consoles) flags(*cobra.Command) {}

func (consoles) check(*cobra.Command, []string) error { return nil }

var likeInstance = regexp.MustCompile(`^i-[0-9A-Za-z]*$`)

func (consoles) is(arg string) bool { return likeInstance.MatchString(arg) && !isThere(arg) }

func (consoles) search(_ *cobra.Command, _ *diagnose.Search, id string) error {
	return fmt.Errorf("reading %s: the eksnode of nodes cannot ask EC2 for the console output of an instance; run "+
		"this command on a workstation", id)
}
