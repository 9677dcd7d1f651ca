//go:build !agent

package eksnode

import "github.com/eksnode/packer-plugin-eksnode/userdata"

// UserData renders the user data with which an instance of a family of images
// joins its cluster. family is one of userdata.IDs. carried is the family of the
// machine for the families karpenter and eksctl, whose manifests carry its user
// data, and empty for all others.
func UserData(family, carried string, node userdata.Node) ([]byte, error) {
	return userdata.Render(family, carried, node)
}
