rm /usr/local/bin/ctr /var/lib/pulled
systemctl stop kubelet containerd
mkdir -p /var/lib/kubelet/pki /var/lib/kubelet/pods/uid/volumes/secret /etc/cni/net.d /var/lib/cni/networks/net /var/lib/cloud/instances/i-1 /home/admin/.ssh /root/.ssh /var/log/pods/x
grep -q ^admin: /etc/passwd || echo 'admin:x:1000:1000::/home/admin:/bin/sh' >> /etc/passwd
echo KEY > /var/lib/kubelet/pki/kubelet-client-1.pem
ln -s kubelet-client-1.pem /var/lib/kubelet/pki/kubelet-client-current.pem
echo SECRET > /var/lib/kubelet/pods/uid/volumes/secret/token
echo '{}' > /var/lib/kubelet/cpu_manager_state
echo '{}' > /etc/cni/net.d/10-aws.conflist
echo pod > /var/lib/cni/networks/net/10.0.0.1
echo secret > /var/lib/cloud/instances/i-1/user-data.txt
ln -s instances/i-1 /var/lib/cloud/instance
echo KEY | tee /etc/ssh/ssh_host_ed25519_key > /etc/ssh/ssh_host_rsa_key
echo builder | tee /root/.ssh/authorized_keys > /home/admin/.ssh/authorized_keys
echo history > /root/.bash_history
echo old > /etc/hostname
echo '127.0.1.1 old' >> /etc/hosts
echo '/swapfile none swap sw 0 0' >> /etc/fstab
echo memory > /swapfile
echo log | tee /var/log/messages /var/log/messages-1 > /var/log/pods/x/0.log
for i in 1 2 3 4 5 6 7 8 9; do echo x > /tmp/packer-$i; done
