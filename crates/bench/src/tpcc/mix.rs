//! How often each transaction of TPC-C is, in the mixes of FAST & FAIR.

/// The mixes of FAST & FAIR: from `W1` to `W4` there are more queries that only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TpccMix {
    /// New-Order 34 %, Payment 43 %, Order-Status 5 %, Delivery 4 %, Stock-Level 14 %.
    W1,
    /// New-Order 27 %, Payment 43 %, Order-Status 15 %, Delivery 4 %, Stock-Level 11 %.
    W2,
    /// New-Order 20 %, Payment 43 %, Order-Status 25 %, Delivery 4 %, Stock-Level 8 %.
    W3,
    /// New-Order 13 %, Payment 43 %, Order-Status 35 %, Delivery 4 %, Stock-Level 5 %.
    W4,
}

/// The transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transaction {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl TpccMix {
    /// The shares in percent.
    pub(super) fn shares(self) -> [(Transaction, u64); 5] {
        let [new_order, order_status, stock_level] = match self {
            TpccMix::W1 => [34, 5, 14],
            TpccMix::W2 => [27, 15, 11],
            TpccMix::W3 => [20, 25, 8],
            TpccMix::W4 => [13, 35, 5],
        };
        [
            (Transaction::NewOrder, new_order),
            (Transaction::Payment, 43),
            (Transaction::OrderStatus, order_status),
            (Transaction::Delivery, 4),
            (Transaction::StockLevel, stock_level),
        ]
    }

    /// The transaction of a ticket below 100.
    pub(super) fn choose(self, mut ticket: u64) -> Transaction {
        for (transaction, share) in self.shares() {
            if ticket < share {
                return transaction;
            }
            ticket -= share;
        }
        unreachable!("the shares sum up to 100, and tickets are below")
    }
}
