package preflight

import (
	"errors"
	"fmt"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

// Validate returns the first fault of the target.
func (t Target) Validate() error {
	if t.Cluster == "" {
		return errors.New("cluster: the name is missing")
	}
	named := 0
	for _, one := range []bool{t.Instance != "", t.Template != "", t.NodeGroup != "", t.NodeClass != nil, t.AMI != ""} {
		if one {
			named++
		}
	}
	if named != 1 {
		return errors.New("name one of an instance, a launch template, a node group, an EC2NodeClass and an image")
	}
	if owner := t.ownsRole(); owner != "" && t.Role != "" {
		return fmt.Errorf("role: %s names its role; leave the role out", owner)
	}
	if owner := t.ownsRole(); owner != "" && len(t.Subnets) > 0 {
		return fmt.Errorf("subnets: %s names its subnets; leave the subnets out", owner)
	}
	if t.NodeGroup != "" {
		if err := awsnames.NodegroupName().Check(t.NodeGroup); err != nil {
			return fmt.Errorf("node group: %w", err)
		}
	}
	if t.Role != "" && awsnames.RoleName().Check(t.Role) != nil {
		if err := awsnames.RoleARN().Check(t.Role); err != nil {
			return fmt.Errorf("role: %w", err)
		}
	}
	return nil
}

// ownsRole is the kind of target that always names a role and subnets, or empty.
func (t Target) ownsRole() string {
	switch {
	case t.NodeGroup != "":
		return "a node group"
	case t.NodeClass != nil:
		return "an EC2NodeClass"
	}
	return ""
}

// accountOf is the account of a role's ARN, or empty.
func accountOf(arn string) string {
	if parts := strings.Split(arn, ":"); len(parts) > 5 && parts[0] == "arn" {
		return parts[4]
	}
	return ""
}

// fitsAccount returns an error when the role belongs to another account: IAM shows
// only roles of the caller's account, and instances can use no other.
func (t Target) fitsAccount(account string) error {
	if of := accountOf(t.Role); of != "" && account != "" && of != account {
		return fmt.Errorf("role: %s belongs to the account %s, but the credentials are for %s; instances can use only roles of their own account", t.Role, of, account)
	}
	return nil
}

func (t Target) String() string {
	said := "image " + t.AMI
	switch {
	case t.Instance != "":
		said = "instance " + t.Instance
	case t.Template != "":
		said = fmt.Sprintf("launch template %s, version %s", t.Template, t.TemplateVersion)
	case t.NodeGroup != "":
		said = "node group " + t.NodeGroup
	case t.NodeClass != nil:
		said = "EC2NodeClass " + t.NodeClass.Name
	}
	if t.Role != "" {
		said += ", role " + t.Role
	}
	return said
}

// command is the command for this preflight with further flags.
func (t Target) command(flags string) string {
	words := []string{"eksnode preflight --cluster", t.Cluster}
	switch {
	case t.Instance != "":
		words = append(words, "--instance", t.Instance)
	case t.Template != "":
		words = append(words, "--launch-template", t.Template, "--launch-template-version", "'"+t.TemplateVersion+"'")
	case t.NodeGroup != "":
		words = append(words, "--nodegroup", t.NodeGroup)
	case t.NodeClass != nil:
		words = append(words, "--nodeclass", show.ShellWord(t.NodeClass.file()))
	default:
		words = append(words, "--ami", t.AMI)
	}
	if t.Role != "" {
		words = append(words, "--role", t.Role)
	}
	if len(t.Subnets) > 0 {
		words = append(words, "--subnet", strings.Join(t.Subnets, ","))
	}
	if t.Kubelet != "" {
		words = append(words, "--kubelet-version", t.Kubelet)
	}
	return strings.TrimSpace(strings.Join(append(words, flags), " "))
}
