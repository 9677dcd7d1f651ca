package scrub

import (
	"errors"
	"fmt"

	"github.com/hashicorp/packer-plugin-sdk/common"
	"github.com/hashicorp/packer-plugin-sdk/template/interpolate"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
	"github.com/eksnode/packer-plugin-eksnode/plugin/remote"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// Config holds the fields of a `provisioner "eksnode-scrub"` block.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`
	remote.Config       `mapstructure:",squash"`
	scrub.Spec          `mapstructure:",squash"`
	scrub.Local         `mapstructure:",squash"`

	ctx interpolate.Context
}

// ownRules reads the rule file on the Packer host.
func (c *Config) ownRules() ([]scrub.OwnRule, error) {
	if err := validate.Home("rules_file", &c.RulesFile); err != nil {
		return nil, err
	}
	name := validate.Known(c.RulesFile)
	if name == "" {
		return nil, nil
	}
	text, err := surface.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("rules_file: %w", err)
	}
	rules, err := scrub.ParseRules(name, text)
	if err != nil {
		return nil, fmt.Errorf("rules_file: %w", err)
	}
	return rules, nil
}

// validate checks the fields that are known before the machine is. Without
// distro, the rules of all distributions are allowed.
func (c *Config) validate() error {
	var err error
	if c.Own, err = c.ownRules(); err != nil {
		return err
	}
	known := validate.KnownFields(c.Spec)
	if validate.IsUnknown(c.RulesFile) { // its rules look like typing errors
		known.Only, known.Skip = nil, nil
	}
	candidates := distros.All()
	if known.Distro != "" {
		distro, err := distros.ByID(known.Distro)
		if err != nil {
			return errors.Join(err, known.Validate(rulesOf(candidates)))
		}
		candidates = []distros.Distro{distro}
	}
	return known.Validate(rulesOf(candidates))
}

func rulesOf(candidates []distros.Distro) []scrub.Rule {
	var rules []scrub.Rule
	for _, d := range candidates {
		rules = append(rules, d.ScrubRules()...)
	}
	return rules
}
