//go:build !agent

package eksnode_test

import (
	"fmt"
	"log"
	"strings"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/userdata"
)

// Render the user data of Amazon Linux 2's images, and check it.
func ExampleUserData() {
	text, err := eksnode.UserData("al2", "", userdata.Node{
		Cluster: userdata.Cluster{
			Name:     "demo",
			Endpoint: "https://0123456789ABCDEF.gr7.eu-central-1.eks.amazonaws.com",
			CA:       "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJnakNDQVNlZ0F3SUJBZ0lVUC91RGRxQ1krSFJDWEJZV1p1djF5c3VNUllvd0NnWUlLb1pJemowRUF3SXcKRlRFVE1CRUdBMVVFQXd3S2EzVmlaWEp1WlhSbGN6QWdGdzB5TmpFeE1qSXlNVEE1TWpKYUdBOHlNVEkyTVRBeQpPVEl4TURreU1sb3dGVEVUTUJFR0ExVUVBd3dLYTNWaVpYSnVaWFJsY3pCWk1CTUdCeXFHU000OUFnRUdDQ3FHClNNNDlBd0VIQTBJQUJBRzU5cm95OC9TV2ZhZFkvanRDWXpWS2t4UXQ2N1VWOTNqejVSZFNKQldySldsbnF3Z1MKOEVsVFBvWTBRb0lCSm84MUMvRXl5THNsc3dQVCt4OUJoSCtqVXpCUk1CMEdBMVVkRGdRV0JCUXdFa3BtMHZKRgpYSnd6VkpicjlNamU1TDZITURBZkJnTlZIU01FR0RBV2dCUXdFa3BtMHZKRlhKd3pWSmJyOU1qZTVMNkhNREFQCkJnTlZIUk1CQWY4RUJUQURBUUgvTUFvR0NDcUdTTTQ5QkFNQ0Ewa0FNRVlDSVFEQ3MwdTh2aGNSZ0dWdFN4VTkKeThKMGxJSDRJY0U1UFdDbG9VRXcycHNyVUFJaEFONDNlZUh0U2M0N3g3VXprbEZ0cE1BT3JLdzV1SlFOdFNpRgpzWjhOdFRZeAotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCg==",
			CIDR:     "10.100.0.0/16",
		},
		Labels: map[string]string{"team": "a"},
	})
	if err != nil {
		log.Fatal(err)
	}
	checked, err := userdata.Check(text, "al2")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("failed:", checked.Failed())
	fmt.Println(strings.TrimSpace(string(text)))
	// Output:
	// failed: false
	// MIME-Version: 1.0
	// Content-Type: multipart/mixed; boundary="EKSNODE"
	//
	// --EKSNODE
	// Content-Type: text/x-shellscript
	//
	// #!/bin/bash
	// set -o errexit
	// /etc/eks/bootstrap.sh 'demo' \
	//   --apiserver-endpoint 'https://0123456789ABCDEF.gr7.eu-central-1.eks.amazonaws.com' \
	//   --b64-cluster-ca 'LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJnakNDQVNlZ0F3SUJBZ0lVUC91RGRxQ1krSFJDWEJZV1p1djF5c3VNUllvd0NnWUlLb1pJemowRUF3SXcKRlRFVE1CRUdBMVVFQXd3S2EzVmlaWEp1WlhSbGN6QWdGdzB5TmpFeE1qSXlNVEE1TWpKYUdBOHlNVEkyTVRBeQpPVEl4TURreU1sb3dGVEVUTUJFR0ExVUVBd3dLYTNWaVpYSnVaWFJsY3pCWk1CTUdCeXFHU000OUFnRUdDQ3FHClNNNDlBd0VIQTBJQUJBRzU5cm95OC9TV2ZhZFkvanRDWXpWS2t4UXQ2N1VWOTNqejVSZFNKQldySldsbnF3Z1MKOEVsVFBvWTBRb0lCSm84MUMvRXl5THNsc3dQVCt4OUJoSCtqVXpCUk1CMEdBMVVkRGdRV0JCUXdFa3BtMHZKRgpYSnd6VkpicjlNamU1TDZITURBZkJnTlZIU01FR0RBV2dCUXdFa3BtMHZKRlhKd3pWSmJyOU1qZTVMNkhNREFQCkJnTlZIUk1CQWY4RUJUQURBUUgvTUFvR0NDcUdTTTQ5QkFNQ0Ewa0FNRVlDSVFEQ3MwdTh2aGNSZ0dWdFN4VTkKeThKMGxJSDRJY0U1UFdDbG9VRXcycHNyVUFJaEFONDNlZUh0U2M0N3g3VXprbEZ0cE1BT3JLdzV1SlFOdFNpRgpzWjhOdFRZeAotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCg==' \
	//   --dns-cluster-ip '10.100.0.10' \
	//   --kubelet-extra-args '--node-labels=team=a'
	// --EKSNODE--
}
