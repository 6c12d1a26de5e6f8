-- Have wake-ups sent to this connection; needs a session of its own. The channel's name is swapped like a table's.
LISTEN openoutbox_channel
