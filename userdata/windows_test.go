package userdata

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// PowerShell's forms of a call, and EC2Launch v2's form of a script.
func TestFormsOfWindowsUserData(t *testing.T) {
	const path = `C:\Program Files\Amazon\EKS\Start-EKSBootstrap.ps1`
	ps := func(lines string) string { return "<powershell>\n" + lines + "\n</powershell>\n" }
	task := func(version, script string) string {
		return "version: " + version + "\ntasks:\n- task: executeScript\n  inputs:\n  - frequency: always\n    type: powershell\n    runAs: localSystem\n    content: |-\n      " +
			strings.ReplaceAll(script, "\n", "\n      ") + "\n"
	}
	const table = "$p = @{\n  EKSClusterName = 'a'\n  DNSClusterIP='10.0.0.10'\n}\n"
	for name, c := range map[string]struct{ text, want string }{
		"quotes and &":              {ps(`& "` + path + `" -EKSClusterName a`), ""},
		"quotes without &":          {ps(`"` + path + `" -EKSClusterName a`), "2: PowerShell takes a path in quotes for text: write & before the quotes"},
		"neither":                   {ps(path + ` -EKSClusterName a`), "2: the path of Start-EKSBootstrap.ps1 has spaces: put it in quotes, with & before"},
		"& without quotes":          {ps(`& ` + path + ` -EKSClusterName a`), "2: the path of Start-EKSBootstrap.ps1 has spaces: put it in quotes, with & before"},
		"a path without spaces":     {ps(`C:\EKS\Start-EKSBootstrap.ps1 -EKSClusterName a`), ""},
		"the path in a variable":    {ps("[string]$EKSBootstrapScriptFile = \"" + path + "\"\n& $EKSBootstrapScriptFile -EKSClusterName a"), ""},
		"prefixes":                  {ps(`& "` + path + `" -EKSCl a -Serv 10.0.0.0/16 -kubelet '--v=2'`), ""},
		"a prefix and a value":      {ps(`& "` + path + `" -EKS a -Serv x`), `2: -ServiceCIDR: "x" is no network such as 10.100.0.0/16`},
		"a short prefix":            {ps(`& "` + path + `" -EKSClusterName a -Kube x`), "2: -Kube: the name is short for several parameters: KubeletExtraArgs, KubeProxyExtraArgs"},
		"a table":                   {ps(table + `& "` + path + `" @p`), ""},
		"a table on one line":       {ps("$p=@{EKSClusterName='a';ServiceCIDR='10.0.0.0/16'}\n" + `& "` + path + `" @p`), ""},
		"a wrong key in a table":    {ps(strings.Replace(table, "DNSClusterIP", "DNSClusterIPs", 1) + `& "` + path + `" @p`), "4: -DNSClusterIPs: Start-EKSBootstrap.ps1 takes no such parameter; did you mean DNSClusterIP?"},
		"a wrong value in a table":  {ps(strings.Replace(table, "10.0.0.10", "x", 1) + `& "` + path + `" @p`), `4: -DNSClusterIP: "x" is no address`},
		"a table without a cluster": {ps(strings.Replace(table, "EKSClusterName = 'a'", "", 1) + `& "` + path + `" @p`), "6: -EKSClusterName: it is missing"},
		"a table of another place":  {ps(`& "` + path + `" @q`), ""},
		"EC2Launch v2":              {task("1.1", `& "`+path+`" -EKSClusterName a`), ""},
		"EC2Launch v2, 1.0":         {task("1.0", `& "`+path+`" -EKSClusterName a`), ""},
		"EC2Launch v2, wrong":       {task("2.0", "Write-Host a\n"+`& "`+path+`" -EKSClusterName a -Nop x`), "1: version: must be 1.0 or 1.1, or EC2Launch v2 does not run the tasks|10: -Nop: Start-EKSBootstrap.ps1 takes no such parameter; known are EKSClusterName, KubeletExtraArgs, KubeProxyExtraArgs, Endpoint, APIServerEndpoint, Base64ClusterCA, DNSClusterIP, ServiceCIDR, ExcludedSnatCIDRs, ContainerRuntime"},
		"EC2Launch v2 without call": {task("1.1", "Write-Host a"), "nothing calls Start-EKSBootstrap.ps1, so the machine joins no cluster"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, said(t, c.text, "")) })
	}
}
