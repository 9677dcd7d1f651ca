package scrub

//go:generate go tool packer-sdc mapstructure-to-hcl2 -type Config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/hashicorp/packer-plugin-sdk/common"
	"github.com/hashicorp/packer-plugin-sdk/template/interpolate"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/plugin/remote"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// Config is the fields of a `provisioner "eksnode-scrub"` block.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`
	remote.Config       `mapstructure:",squash"`

	// Treat the machine as this distribution, whatever its `/etc/os-release`
	// says: for derivatives that behave like a known one.
	Distro string `mapstructure:"distro"`
	// Run these rules or groups of rules and no others. Defaults to all. (Not
	// `only`: Packer keeps that name for choosing builds.)
	Rules []string `mapstructure:"rules"`
	// Leave these rules or groups of rules out.
	SkipRules []string `mapstructure:"skip_rules"`

	// Run the rules of this file besides; see the guide to the scrub for its
	// form.
	RulesFile string `mapstructure:"rules_file"`
	// Put the SHA-256 of every removed file into the report.
	Hash bool `mapstructure:"hash"`
	// At the end, discard the free space of the machine's disks, or fill it
	// with zeros where they know no discard: removed files stay readable in a
	// snapshot otherwise. Filling makes the snapshot as large as the disk.
	WipeFreeSpace bool `mapstructure:"wipe_free_space"`
	// What the audit at the end of the scrub does to the build: `fail` it when
	// the audit finds something or cannot look everywhere, `warn`, or `off` for
	// no audit. The audit asks the rules that `rules` and `skip_rules` choose,
	// those of the inspect phase included. Defaults to `fail`.
	Audit string `mapstructure:"audit"`

	ctx interpolate.Context
}

// spec is the same in the agent's words, with the rules of the rule file.
func (c *Config) spec(own []scrub.OwnRule) scrub.Spec {
	return scrub.Spec{
		Distro: c.Distro, Only: c.Rules, Skip: c.SkipRules, Own: own, Hash: c.Hash, WipeFreeSpace: c.WipeFreeSpace,
		Audit: scrub.Audit(c.Audit),
	}
}

// ownRules reads the rule file, on the packer host.
func (c *Config) ownRules() ([]scrub.OwnRule, error) {
	if err := validate.Home("rules_file", &c.RulesFile); err != nil {
		return nil, err
	}
	name := validate.Known(c.RulesFile)
	if name == "" {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("rules_file: %w", err)
	}
	rules, err := scrub.ParseRules(name, text)
	if err != nil {
		return nil, fmt.Errorf("rules_file: %w", err)
	}
	return rules, nil
}

// validate checks what is known yet. Without a distribution the rules of all
// of them are allowed: which one the machine is turns out when it is there.
func (c *Config) validate() error {
	own, err := c.ownRules()
	if err != nil {
		return err
	}
	known := scrub.Spec{Only: validate.KnownOf(c.Rules), Skip: validate.KnownOf(c.SkipRules), Own: own, Audit: scrub.Audit(validate.Known(c.Audit))}
	if validate.IsUnknown(c.RulesFile) { // its rules cannot be told from typing errors
		known.Only, known.Skip = nil, nil
	}
	candidates := distros.All()
	if name := validate.Known(c.Distro); name != "" {
		distro, err := distros.ByID(name)
		if err != nil {
			return errors.Join(err, inHCL(known.Validate(rulesOf(candidates))))
		}
		candidates = []distros.Distro{distro}
	}
	return inHCL(known.Validate(rulesOf(candidates)))
}

func rulesOf(candidates []distros.Distro) []scrub.Rule {
	var rules []scrub.Rule
	for _, d := range candidates {
		rules = append(rules, d.Scrub...)
	}
	return rules
}

// inHCL gives the spec's fields the names they have in HCL.
func inHCL(err error) error {
	if err == nil {
		return nil
	}
	names := strings.NewReplacer("only: ", "rules: ", "skip: ", "skip_rules: ", "only and skip ", "rules and skip_rules ")
	var renamed []error
	for line := range strings.Lines(err.Error()) {
		renamed = append(renamed, errors.New(names.Replace(strings.TrimSuffix(line, "\n"))))
	}
	return errors.Join(renamed...)
}
